// Package scale predicts what each design costs on more CPUs than there are here.
package scale
