package rhmap

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// The published vectors of SipHash-1-3: key 00..0f, message 00 01 02 ... of the
// given length.
func TestSipHashVectors(t *testing.T) {
	key := Seed{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	var msg [64]byte
	for i := range msg {
		msg[i] = byte(i)
	}
	for n, want := range map[int]uint64{
		0: 0xabac0158050fc4dc, 1: 0xc9f49bf37d57ca93, 7: 0xd3927d989bb11140, 8: 0x369095118d299a8e,
		15: 0xd320d86d2a519956, 16: 0xcc4fdd1a7d908b66, 24: 0xf464aeb267349c8c, 31: 0x2370dd1f8c21d1bc,
		32: 0x81157b6c16a7b60d, 40: 0xc1d2363299e41531, 48: 0x9f3143f8df074c46, 56: 0xb4bcc0db243c6d75,
		63: 0x9d199062b7bbb3a8,
	} {
		require.Equal(t, want, sipHash(key, msg[:n]), "length %d", n)
	}
}

func TestSipHashOfWords(t *testing.T) {
	next := counter()
	m := NewMap[[2]uint64, int](Config[[2]uint64]{Hasher: SipHash[[2]uint64](next)})
	for i := range uint64(1000) {
		m.Store([2]uint64{i, i}, int(i))
	}
	k := [2]uint64{3, 3}
	by := m.cur.Load().hashKey
	require.Equal(t, Seed{1, 2}, by.set, "drawn from the source given")
	require.Equal(t, sipHash(by.set, memory(&k)), m.hasher.sum(&by, &k))
	require.True(t, m.forceReseed())
	settleAll(&m.core)
	require.Equal(t, Seed{3, 4}, m.cur.Load().set)
	v, _ := m.Load(k)
	require.Equal(t, 3, v)
	require.Panics(t, func() { NewMap[string, int](Config[string]{Hasher: SipHash[string](next)}) })
}

type kindPadded struct {
	A uint8
	B uint32
}

type kindPlain struct {
	A, B uint32
	C    [3]uint64
}

type kindBlank struct {
	A uint32
	_ uint32
}

func TestHashIsChosenByTheKey(t *testing.T) {
	require.Equal(t, hashBytes, settled[uint64]())
	require.Equal(t, hashBytes, settled[kindPlain]())
	require.Equal(t, hashBytes, settled[[4]byte]())
	require.Equal(t, hashAny, settled[kindPadded](), "padding is not part of a key")
	require.Equal(t, hashAny, settled[kindBlank](), "== does not compare blank fields")
	require.Equal(t, hashAny, settled[float64]())
	require.Equal(t, hashAny, settled[any]())
	require.Equal(t, hashAny, settled[struct{}]())
	require.Equal(t, hashString, settled[string]())
}

func settled[K comparable]() hashKind {
	var h Hasher[K]
	h.settle()
	return h.kind
}

func TestTagsMatch(t *testing.T) {
	rnd := newRand(2)
	for range 10_000 {
		m, tag := rnd.Uint64(), tagOf(rnd.Uint64())
		if rnd.IntN(2) == 0 { // put the tag somewhere
			i := 8 * rnd.IntN(slotsPer)
			m = m&^(0xff<<i) | tag&0xff<<i
		}
		got := match(m, tag)
		for i := range slotsPer {
			if byte(m>>(8*i)) == byte(tag) {
				require.NotZero(t, got>>(8*i)&0x80, "%x %x", m, tag)
			}
		}
		want := -1
		for i := slotsPer - 1; i >= 0; i-- {
			if byte(m>>(8*i)) == byte(tag) {
				want = i
			}
		}
		if want >= 0 {
			require.Equal(t, want, first(got), "the lowest mark is right")
		} else {
			require.Zero(t, got)
		}
		require.Equal(t, slotsPer, bits.OnesCount64(used(m))+bits.OnesCount64(free(m)))
	}
}
