package percpu_test

import (
	"fmt"

	"corelane/percpu"
)

// A packet cache counts the memory of its fragments. Every packet moves the
// count, so the count must not be one contended word; the question "are we over
// the threshold?" tolerates a known error, and is answered exactly near the line.
func Example() {
	const threshold = 4 << 20
	mem := percpu.NewBatched(32 << 10)
	lane := percpu.ID() // once per packet; a receive queue would pass its own number

	for range 2000 { // fragments arrive
		mem.AddAt(lane, 2048)
	}
	fmt.Println("over the threshold:", mem.Compare(threshold) > 0)

	for range 200 { // more, on another lane
		mem.AddAt(lane+1, 2048)
	}
	fmt.Println("over the threshold:", mem.Compare(threshold) > 0, "by", mem.Exact()-threshold)

	// Output:
	// over the threshold: false
	// over the threshold: true by 311296
}

func ExampleCounter() {
	var packets percpu.Counter // the zero value counts
	packets.Inc()
	packets.AddAt(3, 41)
	fmt.Println(packets.Value())
	// Output: 42
}

func ExampleGroup() {
	const received, dropped = 0, 1
	stats := percpu.NewGroup(2)
	stats.Add(received, 10)
	stats.Add(dropped, 1)
	for i, n := range stats.All() {
		fmt.Println(i, n)
	}
	// Output:
	// 0 10
	// 1 1
}

// Packets and bytes belong together: a mean size computed from a snapshot is the
// mean of real packets, and two Swaps never count one twice.
func ExampleSnapshot() {
	const packets, bytes = 0, 1
	s := percpu.NewSnapshot(2)
	s.AddAll([]int64{1, 1500})
	s.AddAll([]int64{1, 500})
	got := s.Swap(nil)
	fmt.Println("mean", got[bytes]/got[packets])
	fmt.Println(s.Read(nil))
	// Output:
	// mean 1000
	// [0 0]
}

func ExampleValues() {
	buffers := percpu.NewValues(func() []byte { return make([]byte, 0, 64) })
	buffers.With(func(b *[]byte) { *b = append((*b)[:0], "mine alone"...) })
	buffers.Each(func(b *[]byte) {
		if len(*b) > 0 {
			fmt.Println(string(*b))
		}
	})
	// Output: mine alone
}
