package live

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"corelane/internal/judge"
	"corelane/internal/vectors"
)

// host makes a host, or skips the test if this machine does not allow one. Any
// other failure is one.
func host(t *testing.T, family int) *Host {
	t.Helper()
	h, err := NewHost(family)
	if err == nil {
		t.Cleanup(h.Close)
		return h
	}
	missing := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) ||
		errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, errors.ErrUnsupported)
	switch {
	case !missing:
		t.Fatal(err)
	case os.Getenv("CORELANE_LIVE") == "require":
		t.Fatalf("CORELANE_LIVE=require, but no kernel can be asked: %v", err)
	}
	t.Skipf("no kernel can be asked; this needs root, /dev/net/tun and network namespaces: %v", err)
	return nil
}

// TestKernelAnswersAsRecorded shows that the host is set up and observed as the
// recorded one was: it gets the same answers.
func TestKernelAnswersAsRecorded(t *testing.T) {
	for _, name := range []string{"v4-hand", "v6-hand"} {
		t.Run("file="+name, func(t *testing.T) {
			cases, err := vectors.Read(filepath.Join("../../reasm/testdata", name+".jsonl.gz"))
			require.NoError(t, err)
			h := host(t, cases[0].Family)
			asked := 0
			for i := range cases {
				want := &cases[i]
				if takesTime(want) {
					continue
				}
				asked++
				got := *want
				require.NoError(t, h.Ask(&got, judge.Packets(want)), want.Name)
				for k := range want.Out {
					require.Equal(t, comparable(want.Out[k]), comparable(got.Out[k]), "%s: step %d: %+v", want.Name, k, want.Steps[k])
				}
			}
			t.Logf("%s: %d of %d asked, the rest takes time", name, asked, len(cases))
		})
	}
}

func takesTime(c *vectors.Case) bool {
	for i := range c.Steps {
		if c.Steps[i].Pause > 0 {
			return true
		}
	}
	return false
}

// comparable is an outcome without what only one of recorded and live has.
func comparable(o vectors.Out) string {
	for i := range o.Datagrams {
		d := o.Datagrams[i]
		d.Map = nil
		o.Datagrams[i] = d
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}
