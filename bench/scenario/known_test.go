package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// The results that the mails report, or that follow from what they say, one test
// each. Those of overload and recovery stand beside them.

// mailTolerance is how far a ratio may be from that of the mail.
const mailTolerance = 0.25

// row returns the only row of a variant and a design.
func row(t *testing.T, rows []*Row, design string, variant ...string) *Row {
	t.Helper()
	var got []*Row
	for _, r := range rows {
		if r.Design == design && matches(r.Variant, variant) {
			got = append(got, r)
		}
	}
	require.Len(t, got, 1, "%s %s", design, strings.Join(variant, ","))
	return got[0]
}

func share(r *Row, group int) float64 {
	return float64(r.Groups[group].Completed) / float64(r.Groups[group].Completable)
}

func TestStreamsWorkerOrNotDeliversAndMaxDistDoesNot(t *testing.T) {
	race.Skip(t)
	rows := runScenario(t, &streams, []string{"global-lru", "work-queue"})
	for _, senders := range []string{"senders=bound", "senders=unbound"} {
		require.GreaterOrEqual(t, *row(t, rows, "global-lru", senders).GoodputOfBound, 0.99)
		w := row(t, rows, "work-queue", senders)
		require.GreaterOrEqual(t, *w.GoodputOfBound, 0.9)
		require.Positive(t, w.WorkerSteps)
	}
	require.GreaterOrEqual(t, *row(t, rows, "global-lru", "senders=ten", "max_dist=0").GoodputOfBound, 0.99)
	for _, loss := range []string{"loss=0", "loss=0.01"} {
		r := row(t, rows, "global-lru", "senders=ten", "max_dist=64", loss)
		require.LessOrEqual(t, *r.GoodputOfBound, 0.15, "%s: ten streams of one host are further apart than 64", r.Variant)
	}
	stress := row(t, rows, "global-lru", "senders=stress")
	require.Greater(t, stress.Expired, 1000)
}

func TestTwentyGigFloodAgesAway(t *testing.T) {
	race.Skip(t)
	rows := runScenario(t, &twentyGig, []string{"global-lru", "percpu-lru", "hard-limit"})
	for _, load := range []string{"load=20G64K", "load=20G3F"} {
		require.InDelta(t, 19_700, row(t, rows, "global-lru", load, "dos=none").GoodputMbps, 300, "20 Gbit/s less headers")
		for _, dos := range []string{"dos=none", "dos=one-queue", "dos=all-queues"} {
			require.GreaterOrEqual(t, *row(t, rows, "global-lru", load, dos).GoodputOfBound, 0.99)
			r := row(t, rows, "percpu-lru", load, dos)
			require.GreaterOrEqual(t, *r.GoodputOfBound, 0.99)
			require.NotNil(t, r.MailMbps)
		}
		for _, dos := range []string{"dos=one-queue", "dos=all-queues"} {
			require.LessOrEqual(t, *row(t, rows, "hard-limit", load, dos).GoodputOfBound, 0.05)
		}
	}
}

// TestWalkerRecoversAtInterleave44: in the mail 200 streams bring 8599.77 of the
// 9618.08 Mbit/s that ten do, and after 190 of them have stopped, 9623.12. That is
// so as long as the fragments of a datagram arrive in a row, as they leave a
// netperf; table order kills what is interleaved.
func TestWalkerRecoversAtInterleave44(t *testing.T) {
	race.Skip(t)
	rows := runScenario(t, &overload, []string{"walker", "hard-limit"}, "interleave=44")
	for _, loss := range []string{"loss=0", "loss=0.01"} {
		ten, all := row(t, rows, "walker", "streams=10", loss), row(t, rows, "walker", "streams=200", loss)
		require.InEpsilon(t, 8599.77/9618.08, all.GoodputMbps/ten.GoodputMbps, mailTolerance, loss)
		none := row(t, rows, "hard-limit", "streams=200", loss) // 28.66 in the mail
		require.Less(t, none.GoodputMbps, 0.01*ten.GoodputMbps, loss)
	}
	for _, r := range runScenario(t, &recovery, []string{"walker"}, "interleave=44") {
		require.InEpsilon(t, 9623.12/9618.08, *r.GoodputOfBound, mailTolerance, r.Variant)
	}
	for _, r := range runScenario(t, &recovery, []string{"walker"}, "interleave=44", "loss=0") {
		require.NotNil(t, r.RecoveryMs)
		require.LessOrEqual(t, *r.RecoveryMs, 20.0)
	}
	for _, r := range runScenario(t, &overload, []string{"walker"}, "streams=200", "interleave=1") {
		require.Less(t, *r.GoodputOfBound, 0.05, r.Variant)
	}
}

// TestSlowLinkNeedsMemoryForItsGap: least-recently-used keeps a slow sender if
// what is left after an eviction, the low mark, holds what the flood brings in
// 23.4 ms, and else does not. At 100 kpps and 2560 bytes that is 6 MB.
func TestSlowLinkNeedsMemoryForItsGap(t *testing.T) {
	race.Skip(t)
	need := 100_000 * 2560 * float64(slowGap) / 1e9 / float64(mib)
	require.InDelta(t, 5.72, need, 0.01)
	for factor, lives := range map[float64]bool{0.75: false, 1.25: true} {
		high := need * factor * 4 / 3
		s := Scenario{Name: "slow-link", Variants: func(Scale) []Variant {
			return []Variant{slowLinkVariant(high, 100_000, 2*second)}
		}}
		r := runScenario(t, &s, []string{"global-lru"})[0]
		if lives {
			require.Equal(t, r.Completable, r.Completed, r.Variant)
		} else {
			require.Zero(t, r.Completed, r.Variant)
		}
	}
	rows := runScenario(t, &slowLink, []string{"global-lru"})
	require.Zero(t, rows[0].Completed)
	require.Zero(t, rows[1].Completed, "the mail's 24 MB did not count what a packet is charged")
	require.Equal(t, rows[2].Completable, rows[2].Completed)
}

// TestTwoPeersAdaptiveHelpsBoth: thresholds, duration and timeout are the mail's,
// rates and losses are deduced from its figures (see two_peers.go). Of the four
// ratios between them three agree; the hog gains less here, and the scenario says
// why.
func TestTwoPeersAdaptiveHelpsBoth(t *testing.T) {
	race.Skip(t)
	rows := runScenario(t, &twoPeers, []string{"hard-limit", "adaptive"})
	before, after := row(t, rows, "hard-limit", "memory=100MB"), row(t, rows, "adaptive", "memory=100MB")
	const hog, average = 0, 1
	ratio := func(a *Row, i int, b *Row, j int) float64 { return a.Groups[i].GoodputMbps / b.Groups[j].GoodputMbps }
	require.InEpsilon(t, 42.57/50.93, ratio(before, hog, before, average), mailTolerance, "the average peer is ahead")
	require.InEpsilon(t, 420.65/624.79, ratio(after, hog, after, average), mailTolerance, "and stays so")
	require.InEpsilon(t, 624.79/50.93, ratio(after, average, before, average), mailTolerance, "the average peer is helped")
	require.Greater(t, ratio(after, hog, before, hog), 5.0, "the hog is helped (in the mail 9.9 times)")
	require.Greater(t, share(after, average), 0.99)

	require.LessOrEqual(t, share(row(t, rows, "adaptive", "memory=4MiB"), 0), 0.05, "the hog starves")
	for _, r := range runScenario(t, &twoPeers, []string{"global-lru"}, "memory=4MiB") {
		require.GreaterOrEqual(t, *r.GoodputOfBound, 0.99)
		require.GreaterOrEqual(t, *r.Jain, 0.99)
	}
}

func TestLossyNICDoesNotStopTheOthers(t *testing.T) {
	rows := runScenario(t, &lossyNIC, []string{"global-lru", "hard-limit"})
	for _, kind := range []string{"kind=single", "kind=bursts"} {
		for clean := range 2 {
			require.GreaterOrEqual(t, share(row(t, rows, "global-lru", kind), clean), 0.95)
			require.LessOrEqual(t, share(row(t, rows, "hard-limit", kind), clean), 0.05)
		}
	}
}

func TestCrossCPUOnlyCostsTouches(t *testing.T) {
	rows := runScenario(t, &crossCPU, []string{"global-lru"})
	for _, r := range rows {
		require.GreaterOrEqual(t, *r.GoodputOfBound, 0.99, r.Variant)
	}
	for steer, want := range map[string]float64{"pair": 0, "id": 0, "packet": 0.73} {
		r := row(t, rows, "global-lru", "steer="+steer)
		require.InDelta(t, want, float64(r.RemoteTouches)/float64(r.Fragments), 0.03, steer)
	}
	// The first fragment makes the queue, on another lane in three of four
	// streams; then the 43 others are remote.
	flow := row(t, rows, "global-lru", "steer=flow")
	require.Greater(t, float64(flow.RemoteTouches)/float64(flow.Fragments), 0.4)
}

func TestOversubscribedLRUDeliversNothing(t *testing.T) {
	race.Skip(t)
	for _, r := range runScenario(t, &oversubscribed, []string{"global-lru"}) {
		require.LessOrEqual(t, *r.GoodputOfBound, 0.05, r.Variant)
		require.Less(t, r.BoundNominal, r.Completable, r.Variant)
	}
}
