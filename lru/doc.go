// Package lru keeps objects in the order of their last use, so that a cache
// can drop the one that nobody has used for longest.
package lru
