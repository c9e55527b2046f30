//go:build !race

package percpu

func scatter(id int) int { return id }
