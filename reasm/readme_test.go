package reasm

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's table of designs is what the code lists.
func TestReadmeListsTheDesigns(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	want := "| design | mail | idea |\n|---|---|---|\n"
	for _, d := range Designs() {
		want += fmt.Sprintf("| %s | %s | %s |\n", d.Name, d.Seed, d.Idea)
	}
	require.Contains(t, string(readme), want)
}
