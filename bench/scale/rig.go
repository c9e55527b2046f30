package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"corelane/bench/scale/cell"
	"corelane/bench/scale/overlay"
)

// Rig is a program with the marked library in it.
type Rig struct {
	dir, program string
	sites        []string
}

// NewRig marks the library and builds the program. It needs the go command and the
// sources, and some seconds. Close removes what it made.
func NewRig(ctx context.Context) (*Rig, error) {
	src, err := moduleDir(ctx)
	if err != nil {
		return nil, err
	}
	marked, err := overlay.Rewrite(src)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "corelane-scale")
	if err != nil {
		return nil, err
	}
	r := &Rig{dir: dir, program: filepath.Join(dir, "runner"), sites: marked.Sites}
	spec, err := marked.Write(dir)
	if err != nil {
		r.Close()
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", spec, "-o", r.program, "./scale/runner")
	cmd.Dir = src
	// Addresses decide which words share a line. They must be the same in each run.
	cmd.Env = append(os.Environ(), "GOEXPERIMENT=norandomizedheapbase64")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Close()
		return nil, fmt.Errorf("scale: building the marked library: %w: %s", err, out)
	}
	return r, nil
}

// moduleDir is where the bench module lies.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "corelane/bench").Output()
	if err != nil {
		return "", fmt.Errorf("scale: the sources of corelane/bench are needed, and go to compile them: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// Close removes the program.
func (r *Rig) Close() { _ = os.RemoveAll(r.dir) }

// Run runs one cell, in a process of its own.
func (r *Rig) Run(ctx context.Context, c cell.Cell) (*cell.Outcome, error) {
	c.Sites = r.sites
	in, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.program)
	cmd.Stdin = bytes.NewReader(in)
	// Nor may another processor's share of the heap, or the environment, move them.
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("scale: %v: %w: %s", &c, err, lastLines(&stderr))
	}
	o := new(cell.Outcome)
	if err := json.Unmarshal(out, o); err != nil {
		return nil, fmt.Errorf("scale: %v: %w", &c, err)
	}
	return o, nil
}

func lastLines(b *bytes.Buffer) []byte { return b.Bytes()[:min(b.Len(), 2000)] }

// RunAll runs cells, as many at a time as there are processors, and returns what
// came of each, in their order.
func (r *Rig) RunAll(ctx context.Context, cells []cell.Cell, tick func()) ([]*cell.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]*cell.Outcome, len(cells))
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				o, err := r.Run(ctx, cells[i])
				if err != nil {
					cancel(err)
					continue
				}
				out[i] = o
				if tick != nil {
					tick()
				}
			}
		})
	}
	for i := range cells {
		next <- i
	}
	close(next)
	wg.Wait()
	return out, context.Cause(ctx)
}
