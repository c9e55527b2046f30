package micro

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xsync3 "github.com/puzpuzpuz/xsync/v3"
	xsync4 "github.com/puzpuzpuz/xsync/v4"

	"corelane/percpu"
)

// share runs b.N operations on a number of goroutines at the same time: loop does
// n of them as worker w. Besides the time per operation it reports the processor
// time per operation, which is what counts on one P, and how many processors the
// process really had: on a shared machine a run that got fewer than it asked for
// says nothing about contention.
func share(b *testing.B, goroutines int, loop func(w, n int)) {
	var wg sync.WaitGroup
	b.ResetTimer()
	wall, cpu := time.Now(), cpuTime()
	for w := range goroutines {
		n := b.N / goroutines
		if w < b.N%goroutines {
			n++
		}
		wg.Go(func() { loop(w, n) })
	}
	wg.Wait()
	b.StopTimer()
	used, took := cpuTime()-cpu, time.Since(wall)
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(used)/float64(took), "cpus")
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkCounterAdd adds 1 to one counter. Every implementation has a loop of
// its own, so that none pays for a call through an interface. impl=snapshot is
// percpu.Snapshot with two counters, one of which is added to.
//
//	go test ./bench/micro -bench CounterAdd -cpu 1,2
func BenchmarkCounterAdd(b *testing.B) {
	impls := []struct {
		name string
		make func() (loop func(w, n int), sum func() int64)
	}{
		{"atomic", func() (func(w, n int), func() int64) {
			c := new(struct {
				_ [128]byte
				n atomic.Int64
				_ [128]byte
			})
			return func(_, n int) {
				for range n {
					c.n.Add(1)
				}
			}, c.n.Load
		}},
		{"percpu", func() (func(w, n int), func() int64) {
			c := new(percpu.Counter)
			return func(_, n int) {
				for range n {
					c.Add(1)
				}
			}, c.Value
		}},
		{"percpu-lane", func() (func(w, n int), func() int64) {
			c := new(percpu.Counter)
			return func(w, n int) {
				for range n {
					c.AddAt(w, 1)
				}
			}, c.Value
		}},
		{"snapshot", func() (func(w, n int), func() int64) {
			s := percpu.NewSnapshot(2)
			return func(_, n int) {
					for range n {
						s.Add(0, 1)
					}
				}, func() int64 {
					return s.Read(nil)[0]
				}
		}},
		{"xsync3", func() (func(w, n int), func() int64) {
			c := xsync3.NewCounter()
			return func(_, n int) {
				for range n {
					c.Add(1)
				}
			}, c.Value
		}},
		{"xsync4", func() (func(w, n int), func() int64) {
			c := xsync4.NewCounter()
			return func(_, n int) {
				for range n {
					c.Add(1)
				}
			}, c.Value
		}},
	}
	for _, impl := range impls {
		for _, goroutines := range []int{1, 2, 16, 1000} {
			b.Run(fmt.Sprintf("impl=%s/goroutines=%d", impl.name, goroutines), func(b *testing.B) {
				loop, sum := impl.make()
				share(b, goroutines, loop)
				if got := sum(); got != int64(b.N) {
					b.Fatalf("counted %d of %d", got, b.N)
				}
			})
		}
	}
}
