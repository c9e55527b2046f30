// Package smp stands in for sync and sync/atomic where the library runs on a
// virtual machine (package machine), and says what memory is touched.
//
// No source imports it. Package overlay writes the import into a copy of the
// library: every atomic and lock becomes one of these types, and every load and
// store through a pointer or slice goes through R, W or P. The copy is compiled in
// place of the library by go build -overlay, so the library's own build has no
// trace of it.
//
// Types have the size of what they replace, so that what shares a line there does
// so here. Outside of the machine's Run everything works, and costs nothing.
package smp

import (
	"unsafe"

	"corelane/bench/scale/machine"
)

// R is put around what is loaded.
func R[T any](p *T, site uint16) *T {
	if c := machine.Current; c != nil {
		c.Load(uintptr(unsafe.Pointer(p)), unsafe.Sizeof(*p), site, false)
	}
	return p
}

// P is R for an address: what it points to cannot be asked for before it is had.
func P[T any](p *T, site uint16) *T {
	if c := machine.Current; c != nil {
		c.Load(uintptr(unsafe.Pointer(p)), unsafe.Sizeof(*p), site, true)
	}
	return p
}

// W is put around what is stored or changed.
func W[T any](p *T, site uint16) *T {
	if c := machine.Current; c != nil {
		c.Store(uintptr(unsafe.Pointer(p)), unsafe.Sizeof(*p), site)
	}
	return p
}

// MR is put around a map that is looked into, as one load of its header.
func MR[M ~map[K]V, K comparable, V any](m M, site uint16) M {
	if c := machine.Current; c != nil && m != nil {
		c.Load(*(*uintptr)(unsafe.Pointer(&m)), 8, site, true)
	}
	return m
}

// MW is put around a map that is changed.
func MW[M ~map[K]V, K comparable, V any](m M, site uint16) M {
	if c := machine.Current; c != nil && m != nil {
		c.Store(*(*uintptr)(unsafe.Pointer(&m)), 8, site)
	}
	return m
}

// At is put around what an atomic or a lock is called on.
func At[T any](p *T, site uint16) *T {
	if c := machine.Current; c != nil {
		c.At(uintptr(unsafe.Pointer(p)), site)
	}
	return p
}

// CPU stands in for the id of a P.
func CPU() int {
	if c := machine.Current; c != nil {
		return c.ID
	}
	return 0
}

// CPUs is how many CPUs the machine has; set before anything is made.
var CPUs = 1

// GOMAXPROCS stands in for runtime.GOMAXPROCS.
func GOMAXPROCS(int) int { return CPUs }

// Gosched stands in for runtime.Gosched.
func Gosched() {
	if c := machine.Current; c != nil {
		c.Work(100)
		c.Sync()
	}
}
