package reasm

import "math/bits"

// Worth is a product of many factors, so it is kept as a logarithm: to base 2, in
// steps of 1/octave. All of its arithmetic is on integers, and so the same on
// every processor.
const octave = 256

// log2 is octave x log2(x), rounded down, less than 1.5 steps off; x > 0. It never
// falls while x rises.
func log2(x uint64) int64 {
	n := bits.LeadingZeros64(x)
	return int64(63-n)*octave + int64(fractions[x<<n>>55&(octave-1)])
}

// fractions are the logarithms of 1, 1 + 1/octave ... 2 - 1/octave.
var fractions = func() (t [octave]uint8) {
	const one = 1 << 31
	for i := range t {
		// The next bit of a logarithm says whether the square reaches 2.
		x := uint64(octave+i) * (one / octave)
		for bit := octave / 2; bit > 0; bit /= 2 {
			if x = x * x / one; x >= 2*one {
				x /= 2
				t[i] += uint8(bit)
			}
		}
	}
	return t
}()

// Some logarithms of constants.
const (
	log1000th = -2551
	log100th  = -1701
	log9in1K  = -1740 // of 0.009
)
