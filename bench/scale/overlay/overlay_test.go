package overlay

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkedLibraryCompiles(t *testing.T) {
	res, err := Rewrite(".")
	require.NoError(t, err)
	dir := t.TempDir()
	if d := os.Getenv("KEEP"); d != "" {
		dir = d
	}
	file, err := res.Write(dir)
	require.NoError(t, err)
	out, err := exec.Command("go", append([]string{"build", "-overlay", file}, Packages...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Log(len(res.Sites), "sites")
}
