//go:build !percpu_nolinkname

package percpu

import _ "unsafe" // go:linkname

// procPin and procUnpin are the runtime's. They are in its "hall of shame" of
// functions that may not change (golang/go#67401), because others pull them too.
//
// Between the two a goroutine must not block, allocate much, panic or run code of
// others: a panic there kills the process, and recover cannot help. So nothing
// stands between them: the id is taken, and used unpinned. Measured, an atomic
// add under the pin and one after it cost the same.

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// pin returns the id of the P, and unpin must follow at once. Two functions,
// because each inlines and one that did both would not.
func pin() int { return procPin() }
func unpin()   { procUnpin() }
