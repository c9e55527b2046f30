package reasm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/judge"
	"corelane/internal/race"
	"corelane/internal/vectors"
	"corelane/reasm"
)

// unjudged are the cases that even the host model cannot judge, and why.
var unjudged = map[string]string{}

// maxUnjudged is how many there may be, over both families.
const maxUnjudged = 20

// TestVectors replays what a Linux 6.18 kernel did with fragments, step by step,
// under LinuxConfig with that kernel's charges. CORELANE_VECTORS names a
// directory of such files, absolute or from the module's root; without it a part
// of them is replayed from testdata.
func TestVectors(t *testing.T) {
	dir := "testdata"
	if env := os.Getenv("CORELANE_VECTORS"); env != "" {
		dir = fromRoot(env)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl*"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no vectors in %s", dir)
	if dir != "testdata" {
		files = append(files, "testdata/live.jsonl") // what the live judge found
	}
	require.LessOrEqual(t, len(unjudged), maxUnjudged)
	for _, file := range files {
		t.Run("file="+strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			judgeFile(t, file)
		})
	}
}

// fromRoot resolves a path that is relative to the module's root, as the tests
// of a package run one level below it.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", path)
}

func judgeFile(t *testing.T, file string) {
	cases, err := vectors.Read(file)
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	if why := otherKind(&cases[0]); why != "" {
		t.Logf("not judged: %d cases, %s", len(cases), why)
		return
	}
	for i := range cases {
		if why, ok := unjudged[cases[i].Name]; ok {
			t.Logf("not judged: %s: %s", cases[i].Name, why)
		}
	}
	name := strings.TrimPrefix(t.Name(), "TestVectors/file=")
	if race.Enabled && len(cases) > 500 {
		cases = cases[:500] // without the detector they are all judged, every way
	}
	for i, d := range reasm.Designs() {
		judged, elsewhere := 0, 0
		for m, mode := range []reasm.Mode{reasm.Copy, reasm.Borrow} {
			for _, batch := range []int{0, 1, 64} {
				if race.Enabled && (m != i%2 || batch != 64) {
					continue
				}
				judged, elsewhere = judgeCases(t, cases, judge.Way{Design: d.Name, Mode: mode, Batch: batch})
			}
		}
		note := ""
		if elsewhere > 0 {
			note = fmt.Sprintf("; %d are about the limit, which only hard-limit shares with the kernel", elsewhere)
		}
		t.Logf("%s: judged %d of %d with design=%s, mode=copy and borrow, call=Add and AddBatch%s",
			name, judged, len(cases), d.Name, note)
	}
}

// otherKind says why a file holds nothing for this test, by its first case.
func otherKind(c *vectors.Case) string {
	switch {
	case len(c.Out) == 0:
		return "computed, not recorded: overlap policies"
	case c.Family == 6 && c.Path == "nf":
		return "IPv6 conntrack is another reassembler, with other reactions"
	case len(c.Out[0].Queues) != 2:
		return "recorded from another program, or without the kernel's table"
	}
	return ""
}

func judgeCases(t *testing.T, cases []vectors.Case, way judge.Way) (judged, elsewhere int) {
	failed := 0
	judges := make(map[vectors.Cfg]*judge.Judge)
	for i := range cases {
		c := &cases[i]
		if unjudged[c.Name] != "" {
			continue
		}
		if way.Design != "hard-limit" && judge.AboutLimit(c) {
			elsewhere++
			continue
		}
		judged++
		j := judges[c.Cfg]
		if j == nil {
			var err error
			j, err = judge.New(c.Cfg, way)
			require.NoError(t, err)
			judges[c.Cfg] = j
		}
		if diff := j.Case(c, judge.Packets(c)); diff != "" {
			delete(judges, c.Cfg) // its table may be in any state
			if failed++; failed <= 10 {
				t.Errorf("%v case %s\n%s", way, c.Name, diff)
			}
		}
	}
	if failed > 10 {
		t.Errorf("%v: %d cases failed in all", way, failed)
	}
	for _, j := range judges {
		require.NoError(t, j.Close())
	}
	return judged, elsewhere
}
