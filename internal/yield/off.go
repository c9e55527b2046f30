//go:build !invariants

package yield

// Enabled reports whether Point does anything in this build.
const Enabled = false

// Point marks a window. It is empty in this build.
func Point(string) {}

// On panics: this build has no windows to hook.
func On(string, func()) (restore func()) { panic("yield: On needs -tags invariants") }

// Chaos does nothing in this build.
func Chaos(uint64, int) (restore func()) { return func() {} }
