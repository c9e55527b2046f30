// Command runner runs cells, one JSON value after the other from its standard
// input, and prints what came of each. Package scale builds it with the marked
// library, and starts one for every cell, so that no cell inherits the heap of
// another.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"corelane/bench/scale/cell"
)

func main() {
	runtime.GOMAXPROCS(1)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var c cell.Cell
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return err
	}
	o, err := cell.Run(&c)
	if err != nil {
		return fmt.Errorf("%v: %w", &c, err)
	}
	return json.NewEncoder(out).Encode(o)
}
