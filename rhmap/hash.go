package rhmap

import (
	"hash/maphash"
	"reflect"
	"unsafe"

	"github.com/dgryski/go-sip13"
)

// Seed is a settable hash key of 128 bits.
type Seed [2]uint64

// Hasher says how keys are hashed. The zero Hasher is MapHash.
//
// All 64 bits of a hash are used: the high ones choose the bucket, the low seven
// the tag, and walks go in the order of the hash.
type Hasher[K comparable] struct {
	kind hashKind
	fn   func(Seed, K) uint64
	rand func() uint64
}

type hashKind uint8

const (
	hashDefault hashKind = iota
	hashBytes            // maphash.Bytes over the memory of the key
	hashString           // maphash.String
	hashAny              // maphash.Comparable
	hashSip              // SipHash-1-3 over the memory of the key
	hashFunc             // fn
)

// MapHash hashes with hash/maphash under a random key: fast, and safe against
// chosen keys. Walks come in another order in every process.
func MapHash[K comparable]() Hasher[K] { return Hasher[K]{} }

// SipHash hashes with SipHash-1-3 (Aumasson and Bernstein, 2012) under keys drawn
// from rand, so that a seeded rand makes the order of a table repeatable (on
// machines of one byte order). It is safe against chosen keys as long as rand is
// secret. K must be made of integers, without padding; NewMap and NewTable panic
// otherwise.
func SipHash[K comparable](rand func() uint64) Hasher[K] {
	return Hasher[K]{kind: hashSip, rand: rand}
}

// CustomHash hashes with fn. It is called with keys drawn from rand: when a chain
// becomes over-long, with a fresh one. fn must depend on its arguments only, must
// not panic, and must not use the table. A nil rand draws from the runtime.
func CustomHash[K comparable](fn func(Seed, K) uint64, rand func() uint64) Hasher[K] {
	return Hasher[K]{kind: hashFunc, fn: fn, rand: rand}
}

// settle chooses the kind for K, or panics when it cannot be had.
func (x *Hasher[K]) settle() {
	t := reflect.TypeFor[K]()
	plain := isPlain(t)
	switch {
	case x.kind == hashDefault && plain:
		x.kind = hashBytes
	case x.kind == hashDefault && t.Kind() == reflect.String:
		x.kind = hashString
	case x.kind == hashDefault:
		x.kind = hashAny
	case x.kind == hashSip && !plain:
		panic("rhmap: SipHash needs keys of integers without padding, not " + t.String())
	}
	if x.rand == nil {
		x.rand = func() uint64 { return maphash.Bytes(maphash.MakeSeed(), []byte("rhmap")) }
	}
}

// hashKey is what a hash depends on beside the key: seed for the hashes of the
// runtime, set for the others.
type hashKey struct {
	seed maphash.Seed
	set  Seed
}

// draw makes a fresh hash key.
func (x *Hasher[K]) draw() hashKey {
	if x.kind == hashSip || x.kind == hashFunc {
		return hashKey{set: Seed{x.rand(), x.rand()}}
	}
	return hashKey{seed: maphash.MakeSeed()}
}

// sum hashes *k.
func (x *Hasher[K]) sum(by *hashKey, k *K) uint64 {
	switch x.kind {
	case hashBytes:
		return maphash.Bytes(by.seed, memory(k))
	case hashString:
		return maphash.String(by.seed, *(*string)(unsafe.Pointer(k)))
	case hashSip:
		return sipHash(by.set, memory(k))
	case hashFunc:
		return x.fn(by.set, *k)
	default:
		return maphash.Comparable(by.seed, *k)
	}
}

// sipHash is the one place that knows where SipHash-1-3 comes from.
func sipHash(key Seed, p []byte) uint64 { return sip13.Sum64(key[0], key[1], p) }

// memory is the memory of a plain key.
func memory[K any](k *K) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k))
}

// isPlain reports whether two values of type t are equal exactly when their
// memory is: integers, and arrays and structs of them without padding.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	case reflect.Array:
		return t.Len() > 0 && isPlain(t.Elem())
	case reflect.Struct:
		end := uintptr(0)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" || f.Offset != end || !isPlain(f.Type) {
				return false
			}
			end += f.Type.Size()
		}
		return end == t.Size() && end > 0
	default:
		return false
	}
}
