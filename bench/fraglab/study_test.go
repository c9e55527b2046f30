package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/bench/study"
	"corelane/internal/race"
)

// A load that takes a fraction of a second.
const quickLoad = "S10 10x64K memory=256KiB burst=44 loss=0%"

// studyWith runs `fraglab study` with some arguments.
func studyWith(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newStudyCommand()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

func TestStudyPrintsAMatrix(t *testing.T) {
	race.Skip(t)
	out, progress, err := studyWith(t, "--scenario", quickLoad, "--design", "global-lru,worth")
	require.NoError(t, err)
	require.Contains(t, progress, "1 of 1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, []string{"load", "bound", "global-lru", "worth"}, strings.Fields(lines[0]))
	require.Contains(t, lines[2], quickLoad)
	require.Equal(t, []string{"100.0", "100.0", "100.0"}, strings.Fields(lines[2])[len(strings.Fields(quickLoad)):])
}

func TestStudyPrintsJSONAndCSV(t *testing.T) {
	out, progress, err := studyWith(t, "--scenario", quickLoad, "--design", "worth", "--seeds", "2", "--json", "--quiet")
	require.NoError(t, err)
	require.Empty(t, progress)
	var cells []study.Cell
	require.NoError(t, json.Unmarshal([]byte(out), &cells))
	require.Len(t, cells, 1)
	require.Equal(t, 2, cells[0].Seeds)
	require.InDelta(t, 100, cells[0].OfBound, 0.1)

	out, _, err = studyWith(t, "--scenario", quickLoad, "--design", "worth,hard-limit", "--csv", "--quiet")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
}

func TestStudyCheckSaysWhatWasPromised(t *testing.T) {
	out, _, err := studyWith(t, "--scenario", quickLoad, "--design", "worth,hard-limit", "--check", "--quiet")
	require.NoError(t, err)
	require.Contains(t, out, "beside hard-limit")
	require.Contains(t, out, "2 of 2 met")
}

func TestStudyRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, args := range [][]string{
		{"--scenario", "S99"}, {"--design", "nobody's"}, {"--steer", "luck"}, {"--seeds", "0"}, {"--lanes", "-1"}, {"more"},
	} {
		_, _, err := studyWith(t, args...)
		require.Error(t, err, args)
	}
}

func TestStudyListsItsLoads(t *testing.T) {
	out, _, err := studyWith(t, "--list")
	require.NoError(t, err)
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), len(study.Loads()))
}
