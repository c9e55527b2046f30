package memacct_test

import (
	"fmt"

	"corelane/memacct"
)

// A host bounds what its namespaces hold together, a namespace what it holds
// itself. Lanes are the receive queues.
func Example() {
	limits := func(n int64) memacct.Config {
		return memacct.Config{Limits: memacct.Limits{Cap: n, High: n * 3 / 4, Low: n / 2}, Lanes: 4}
	}
	host, err := memacct.NewStock(nil, limits(4<<20))
	if err != nil {
		panic(err)
	}
	blue, _ := memacct.NewStock(host, limits(3<<20))
	red, _ := memacct.NewStock(host, limits(3<<20))

	fragments := 0
	for blue.TryChargeAt(fragments%4, 2048) {
		fragments++
	}
	fmt.Println("blue holds", fragments, "fragments: its own cap is reached")
	for red.TryChargeAt(0, 2048) {
		fragments++
	}
	fmt.Println("both hold", fragments, "fragments: the host's cap is reached")

	for range 1024 { // blue is evicted, by whoever has the time, on any lane
		blue.UnchargeAt(2, 2048)
	}
	fmt.Println("red may go on:", red.TryChargeAt(3, 2048))
	used, _ := host.Exact()
	fmt.Println("in use:", used)

	// Output:
	// blue holds 1536 fragments: its own cap is reached
	// both hold 2048 fragments: the host's cap is reached
	// red may go on: true
	// in use: 2099200
}

func ExampleConfig_onMark() {
	a, _ := memacct.NewAtomic(nil, memacct.Config{
		Limits: memacct.Limits{Cap: 1000, High: 800, Low: 400},
		OnMark: func(above bool) { fmt.Println("reclaim:", above) },
	})
	a.Charge(801)
	a.Uncharge(300) // still above Low: nothing to say
	a.Uncharge(101)
	// Output:
	// reclaim: true
	// reclaim: false
}
