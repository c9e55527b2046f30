// Package overlay rewrites the library, so that it runs on a virtual machine and
// says what memory it touches.
//
// The rewritten copy is given to the compiler in place of the sources (go build
// -overlay). The sources stay as they are, and what is marked does not depend on
// anybody's care:
//
//   - sync.Mutex, the types and functions of sync/atomic, runtime.Gosched and
//     GOMAXPROCS become those of package smp. Whatever else of sync or
//     sync/atomic a source uses is an error.
//   - every load and store through a pointer or slice, or of a package's variable,
//     is wrapped: q.state becomes (*smp.R(&q.state, 17)). 17 is a site, a name
//     for what stands there: reasm.queue.state.
//
// Not marked: elements that a range statement hands out, what copy, append and
// clear move, characters of strings, and what the packages outside of the library
// do (the hash function, maps). Check finds everything else that escaped.
package overlay
