package micro

import (
	"fmt"
	"sync/atomic"
	"testing"

	"corelane/memacct"
)

// piece is what a fragment costs, and hold how many of them a 64 KB datagram has:
// each worker charges that many, then gives them back.
const (
	piece = 1500
	hold  = 44
)

// casLevel is an account written down the shortest way: one word and a cap per
// level, charged by compare-and-swap from the leaf up. Linux's page_counter with
// a CAS for its add. It is the rival; memacct.Atomic does the same and more.
type casLevel struct {
	_      [128]byte
	used   atomic.Int64
	cap    int64
	parent *casLevel
	_      [128]byte
}

func (a *casLevel) charge(n int64) bool {
	for l := a; l != nil; l = l.parent {
		for {
			used := l.used.Load()
			if used+n > l.cap {
				for undo := a; undo != l; undo = undo.parent {
					undo.used.Add(-n)
				}
				return false
			}
			if l.used.CompareAndSwap(used, used+n) {
				break
			}
		}
	}
	return true
}

func (a *casLevel) uncharge(n int64) {
	for l := a; l != nil; l = l.parent {
		l.used.Add(-n)
	}
}

// cycle has b.N pieces charged and given back on one account by a number of
// workers: loop does n of them, and returns how often it was refused. A worker that
// is refused gives back all it holds and goes on, which is what an evicting cache
// does. The time is per piece that was charged and given back.
func cycle(b *testing.B, goroutines int, loop func(w, n int) (refused int)) {
	var refused atomic.Int64
	share(b, goroutines, func(w, n int) { refused.Add(int64(loop(w, n))) })
	b.ReportMetric(float64(refused.Load())/float64(b.N), "refusals/op")
}

// The loops of the implementations are the same, written out for each, so that
// none pays for a call through an interface or closure.

func casLoop(leaf *casLevel) func(w, n int) int {
	return func(_, n int) (refused int) {
		for n > 0 {
			want, held := min(hold, n), 0
			for held < want && leaf.charge(piece) {
				held++
			}
			if held < want {
				refused++
			}
			n -= held
			for ; held > 0; held-- {
				leaf.uncharge(piece)
			}
		}
		return refused
	}
}

func atomicLoop(leaf *memacct.Atomic) func(w, n int) int {
	return func(_, n int) (refused int) {
		for n > 0 {
			want, held := min(hold, n), 0
			for held < want && leaf.TryCharge(piece) {
				held++
			}
			if held < want {
				refused++
			}
			n -= held
			for ; held > 0; held-- {
				leaf.Uncharge(piece)
			}
		}
		return refused
	}
}

func stockLoop(leaf *memacct.Stock) func(w, n int) int {
	return func(_, n int) (refused int) {
		for n > 0 {
			want, held := min(hold, n), 0
			for held < want && leaf.TryCharge(piece) {
				held++
			}
			if held < want {
				refused++
			}
			n -= held
			for ; held > 0; held-- {
				leaf.Uncharge(piece)
			}
		}
		return refused
	}
}

func stockLaneLoop(leaf *memacct.Stock) func(w, n int) int {
	return func(lane, n int) (refused int) {
		for n > 0 {
			want, held := min(hold, n), 0
			for held < want && leaf.TryChargeAt(lane, piece) {
				held++
			}
			if held < want {
				refused++
			}
			n -= held
			for ; held > 0; held-- {
				leaf.UnchargeAt(lane, piece)
			}
		}
		return refused
	}
}

// BenchmarkCharge compares accounts of one and three levels (host, namespace,
// peer), all workers charging the same leaf.
//
//	fill=low   the cap is 64 MiB, and at most 66 KB a worker are in use
//	fill=brim  what the workers hold fills the cap to the byte; nobody is refused
//	fill=over  three quarters of that fits, so workers are refused all the time
//
// impl=stock asks for its lane as a caller without one does; impl=stock-lane is
// told it.
//
//	go test ./bench/micro -bench Charge -cpu 1,2
func BenchmarkCharge(b *testing.B) {
	impls := []struct {
		name string
		make func(levels int, ballast int64) (loop func(w, n int) int)
	}{
		{"cas", func(levels int, ballast int64) func(w, n int) int {
			var leaf *casLevel
			for range levels {
				leaf = &casLevel{cap: benchCap, parent: leaf}
			}
			leaf.charge(ballast)
			return casLoop(leaf)
		}},
		{"atomic", func(levels int, ballast int64) func(w, n int) int {
			var leaf *memacct.Atomic
			for range levels {
				leaf = must(memacct.NewAtomic(leaf, limited(benchCap)))
			}
			leaf.Charge(ballast)
			return atomicLoop(leaf)
		}},
		{"stock", func(levels int, ballast int64) func(w, n int) int {
			return stockLoop(newStock(levels, ballast))
		}},
		{"stock-lane", func(levels int, ballast int64) func(w, n int) int {
			return stockLaneLoop(newStock(levels, ballast))
		}},
	}
	fills := []struct {
		name string
		room func(goroutines int) int64
	}{
		{"low", func(int) int64 { return benchCap }},
		{"brim", func(g int) int64 { return int64(g) * hold * piece }},
		{"over", func(g int) int64 { return int64(g) * hold * piece * 3 / 4 }},
	}
	for _, levels := range []int{1, 3} {
		for _, fill := range fills {
			for _, goroutines := range []int{1, 2, 16} {
				for _, impl := range impls {
					name := fmt.Sprintf("levels=%d/fill=%s/goroutines=%d/impl=%s", levels, fill.name, goroutines, impl.name)
					b.Run(name, func(b *testing.B) {
						cycle(b, goroutines, impl.make(levels, benchCap-fill.room(goroutines)))
					})
				}
			}
		}
	}
}

const benchCap = 64 << 20

func limited(n int64) memacct.Config {
	return memacct.Config{Limits: memacct.Limits{Cap: n, High: n, Low: n}, Lanes: 2}
}

func newStock(levels int, ballast int64) *memacct.Stock {
	var leaf *memacct.Stock
	for range levels {
		leaf = must(memacct.NewStock(leaf, limited(benchCap)))
	}
	leaf.ChargeAt(0, ballast)
	if err := leaf.Drain(); err != nil {
		panic(err)
	}
	return leaf
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
