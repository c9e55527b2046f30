package machine

import (
	"runtime"
	"unsafe"
)

// stackRoom is how deep the code on a virtual CPU may nest, in bytes.
const stackRoom = 1 << 17

// growStack makes the goroutine's stack large enough never to move again, and
// returns where it lies. The machine's process has no garbage collector running,
// so nothing shrinks it either.
//
//go:noinline
func growStack() (lo, hi uintptr) {
	useStack()
	var here byte
	at := uintptr(unsafe.Pointer(&here))
	return at - stackRoom/2, at + 128
}

//go:noinline
func useStack() {
	var room [stackRoom]byte
	for i := 0; i < len(room); i += 1 << 12 {
		room[i] = 1
	}
	runtime.KeepAlive(&room)
}
