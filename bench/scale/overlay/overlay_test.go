package overlay

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var marked = sync.OnceValues(func() (*Result, error) { return Rewrite(".") })

func TestMarkedLibraryCompiles(t *testing.T) {
	res, err := marked()
	require.NoError(t, err)
	dir := t.TempDir()
	if keep := os.Getenv("CORELANE_KEEP_MARKED"); keep != "" {
		dir = keep
	}
	file, err := res.Write(dir)
	require.NoError(t, err)
	out, err := exec.Command("go", append([]string{"build", "-overlay", file}, Packages...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Greater(t, len(res.Sites), 300)
}

// No lock, atomic, load or store of the library escapes its mark.
func TestNothingIsUnmarked(t *testing.T) {
	res, err := marked()
	require.NoError(t, err)
	require.NoError(t, res.Check("."))
}

// The check finds every single mark that is taken away, here one in each file.
func TestCheckFindsAMarkThatIsMissing(t *testing.T) {
	res, err := marked()
	require.NoError(t, err)
	simple := regexp.MustCompile(`\(\*smp\.[RPW]\(&([a-z]+\.[a-zA-Z]+), \d+\)\)`)
	without := &Result{Files: maps.Clone(res.Files)}
	taken := 0
	for path, text := range res.Files {
		if at := simple.FindSubmatchIndex(text); at != nil {
			without.Files[path] = slices.Concat(text[:at[0]], text[at[2]:at[3]], text[at[1]:])
			taken++
		}
	}
	require.Greater(t, taken, 30)
	err = without.Check(".")
	require.Error(t, err)
	require.Contains(t, err.Error(), "unmarked")
	require.Equal(t, taken, unmarkedCount(t, err), "%v", err)
}

func unmarkedCount(t *testing.T, err error) (n int) {
	t.Helper()
	for _, r := range strings.TrimPrefix(err.Error(), "overlay: ") {
		if r < '0' || r > '9' {
			break
		}
		n = 10*n + int(r-'0')
	}
	return n
}

func TestCheckFindsAnAtomicThatIsNotReplaced(t *testing.T) {
	res, err := marked()
	require.NoError(t, err)
	for path := range res.Files {
		if filepath.Base(path) == "account.go" {
			bad := &Result{Files: maps.Clone(res.Files)}
			text := strings.Replace(string(res.Files[path]), `_ "sync/atomic"`, `"sync/atomic"`, 1)
			bad.Files[path] = []byte(text + "\nvar unmarked atomic.Int64\n")
			err := bad.Check(".")
			require.ErrorContains(t, err, "sync/atomic.Int64")
			return
		}
	}
	t.Fatal("memacct/account.go is gone; choose another file")
}

// The compiler finds every package of the library that uses a lock or an atomic; none
// but those in Packages may.
func TestEveryPackageWithLocksIsMarked(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "-deps", "corelane/reasm").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(pkg, "corelane/") || slices.Contains(Packages, pkg) {
			continue
		}
		for _, imp := range strings.Fields(imports) {
			require.NotContains(t, []string{"sync", "sync/atomic"}, imp, "%s is not marked", pkg)
		}
	}
}
