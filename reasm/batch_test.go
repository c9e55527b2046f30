package reasm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// trainOps is what batches are made for: trains of fragments in order, now and
// then one that is late, missing, twice, too long, or another datagram's.
func trainOps(rng *rand.Rand) (ops []op) {
	var trains [][]op
	family, fill := 4+2*rng.IntN(2), 0
	for id := range uint32(1 + rng.IntN(4)) {
		var train []op
		for at, pieces := 0, 3+rng.IntN(14); pieces > 0 && at < 8192*8; pieces-- {
			fill++
			o := op{family: family}
			o.frag = frag{Src: "10.9.1.1", Dst: "10.9.0.1", ID: id, Proto: 253, Off: at, Len: 8 * (1 + rng.IntN(4)),
				MF: pieces > 1, DF: family == 4 && rng.IntN(3) == 0, TOS: rng.IntN(3), TTL: 1 + fill%250, Fill: new(fill)}
			if family == 6 {
				o.frag.Src, o.frag.Dst = "fd09::1:1", "fd09::1"
			}
			if rng.IntN(40) == 0 {
				o.frag.Len = min(65400, 65528-at) &^ 7
			}
			at += o.frag.Len
			train = append(train, o)
		}
		for range rng.IntN(4) {
			i, j := rng.IntN(len(train)), rng.IntN(len(train))
			switch o := train[i]; rng.IntN(8) {
			case 0:
				train[i], train[j] = train[j], train[i]
			case 1:
				train = append(train, o)
			case 2:
				train = append(train[:i+1], train[i:]...)
			case 3:
				train[i].frag.MF = !o.frag.MF
			case 4:
				train[i].frag.Len = 0
			case 5:
				train[i].frag.Len += 3
			case 6:
				train[i].frag.ID ^= 1
			case 7:
				train[i].wait = time.Duration(1+rng.IntN(1500)) * time.Millisecond
			}
		}
		trains = append(trains, train)
	}
	for len(trains) > 0 { // interleaved, a few of each
		i := rng.IntN(len(trains))
		n := min(1+rng.IntN(6), len(trains[i]))
		ops = append(ops, trains[i][:n]...)
		if trains[i] = trains[i][n:]; len(trains[i]) == 0 {
			trains = slices.Delete(trains, i, i+1)
		}
	}
	return ops
}

func TestTrainsInBatchesMatchTheReference(t *testing.T) {
	rounds := uint64(fewerUnderRace(200))
	for _, w := range waysOnce() {
		if !w.batch {
			continue
		}
		t.Run(w.String(), func(t *testing.T) {
			for seed := range rounds {
				rng := rand.New(rand.NewPCG(seed, 17))
				playOps(t, w, opConfigs[seed%uint64(len(opConfigs))](), trainOps(rng))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// A fragment behind the known end, and one too long for 16 bits, look like the next of a train.
func TestTrainsInBatchesEndWhereTheyMust(t *testing.T) {
	piece := func(id uint32, off, n int, more bool) op {
		return op{family: 6, frag: frag{Src: "fd09::1:1", Dst: "fd09::1", ID: id, Proto: 253, Off: off, Len: n, MF: more, TTL: 9}}
	}
	for name, ops := range map[string][]op{
		"behind=end": {piece(1, 0, 8, true), piece(1, 24, 8, false), piece(1, 32, 8, true), piece(1, 40, 8, true)},
		"longest=in": {piece(1, 0, 8, true), piece(1, 8, 65504, true), piece(1, 65512, 8, false)},
		"short=tail": {piece(1, 0, 8, true), piece(1, 8, 160, true), piece(1, 168, 160, true), piece(1, 328, 8, false)},
	} {
		for _, w := range waysOnce() {
			for i, config := range opConfigs {
				t.Run(fmt.Sprintf("%s/%v/config=%d", name, w, i), func(t *testing.T) { playOps(t, w, config(), ops) })
			}
		}
	}
}

// At the limit a batch evicts and refuses what its fragments would one by one, and what is charged never passes the
// limit by more than it would then.
func TestTrainsInBatchesAreChargedLikeSingleOnes(t *testing.T) {
	for _, d := range Designs() {
		if d.Name == "worth" {
			continue // it notes a hole when it is told of a run, not one that was filled inside
		}
		t.Run("design="+d.Name, func(t *testing.T) {
			for seed := range uint64(80) {
				var seen [2][]string
				var stats [2]Stats
				for way := range 2 {
					cfg := DefaultConfig()
					cfg.Mode, cfg.Limits = Mode(seed%2), Limits{High: 12 << 10, Low: 9 << 10}
					cfg.Hash, cfg.Rand = func(k *Key) uint64 { return mix(uint64(k.ID())) }, rand.NewPCG(seed, 3).Uint64
					cfg.Free = func([]Buffer) {}
					cache, err := New(d.Name, cfg)
					require.NoError(t, err)
					rng := rand.New(rand.NewPCG(seed, 18))
					lane, peak, now := cache.Lane(0), int64(0), int64(time.Hour)
					for range 30 {
						fs := make([]Fragment, 0, 64)
						for _, o := range trainOps(rng) {
							if o.frag.Len < 1000 {
								fs = append(fs, Fragment{})
								Parser{}.Parse(o.frag.packet(o.family, 0), 0, &fs[len(fs)-1])
							}
						}
						rs := make([]Result, len(fs))
						if now += 1e6; way == 0 {
							for i := range fs {
								rs[i] = lane.Add(now, &fs[i])
								peak = max(peak, cache.Stats().Bytes)
							}
						} else {
							lane.AddBatch(now, fs, rs)
							peak = max(peak, cache.Stats().Bytes)
						}
						for i := range rs { // only now: a datagram is charged until then
							seen[way] = append(seen[way], rs[i].Verdict.String())
							if rs[i].Datagram != nil {
								rs[i].Datagram.Release()
							}
						}
					}
					require.NoError(t, cache.Close())
					stats[way] = cache.Stats()
					require.Zero(t, stats[way].Bytes)
					require.Zero(t, stats[way].Queues)
				}
				for i := range seen[0] {
					require.Equal(t, seen[0][i], seen[1][i], "seed %d, fragment %d", seed, i)
				}
				require.Equal(t, stats[0], stats[1], "seed %d", seed)
			}
		})
	}
}

// A design that has to be asked for every single fragment says how far a run may go: else a batch is no cheaper.
func TestBatchTakesATrainInOneRun(t *testing.T) {
	for _, d := range Designs() {
		t.Run("design="+d.Name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Mode, cfg.Free = Borrow, func([]Buffer) {}
			made, err := New(d.Name, cfg)
			require.NoError(t, err)
			fs := make([]Fragment, 20)
			for i := range fs {
				o := piece(1, 8*i, 8, i < len(fs)-1)
				require.Equal(t, Held, Parser{}.Parse(o.of(0).packet(4, 0), 0, &fs[i]))
			}
			l, rs := made.Lane(0).(*lane), make([]Result, len(fs))
			q := l.admit(&fs[0], &rs[0])
			require.Equal(t, len(fs), l.takeRun(q, fs, rs))
			q.mu.Unlock()
			rs[len(fs)-1].Datagram.Release()
			require.NoError(t, made.Close())
		})
	}
}
