package scale

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"corelane/bench/scale/cell"
	"corelane/bench/scale/machine"
)

// The bench of mail 002: a machine of 2013 with two ports of 10 Gbit/s, whose
// senders are paused when a ring is full, and beside them 1 Mpps of incomplete
// datagrams on one receive queue (DoS) or on all (MQ). The mail does not describe
// the machine. What is assumed here was not fitted to its figures: 24 CPUs on two
// sockets, ticket locks as Linux had then, and 900 ns for a packet outside of the
// fragment cache.
const (
	mailCPUs    = 24
	mailOutside = 900
	mailFrame   = 1230.4 // ns for a full frame at 10 Gbit/s
	mailHigh    = 4 << 20
	mailTime    = 60e6
	mailPayload = 1480
)

// bench2013 changes the measured machine into the assumed one.
func bench2013(p machine.Params) machine.Params {
	p.Near, p.Far, p.Cluster, p.Deal = 80, 200, mailCPUs/2, true
	p.LookAhead, p.RMW, p.Store = 0, 6, 1
	p.Lock = machine.Ticket
	return p
}

// mailColumns are the mail's, with its figures in Mbit/s: what it calls net-next, and
// its LRU list per CPU.
var mailColumns = []struct {
	load Load
	mail map[string]float64
}{
	{Load{"20G64K", 44, 0, false}, map[string]float64{"global-lru": 17417.4, "percpu-lru": 19047.0}},
	{Load{"20G3F", 3, 0, false}, map[string]float64{"global-lru": 11376.5, "percpu-lru": 13503.9}},
	{Load{"20G64K+DoS", 44, 1e6, false}, map[string]float64{"global-lru": 3853.43, "percpu-lru": 10314.10}},
	{Load{"20G3F+DoS", 3, 1e6, false}, map[string]float64{"global-lru": 6170.56, "percpu-lru": 12363.20}},
	{Load{"20G64K+MQ", 44, 1e6, true}, map[string]float64{"global-lru": 174.8, "percpu-lru": 1528.7}},
	{Load{"20G3F+MQ", 3, 1e6, true}, map[string]float64{"global-lru": 402.9, "percpu-lru": 2064.9}},
}

// MailCell is a field of the mail's table.
type MailCell struct {
	Design   string  `json:"design"`
	Load     string  `json:"load"`
	Mbps     float64 `json:"mbps"`     // predicted
	Mail     float64 `json:"mail"`     // Mbit/s in the mail; 0 where it has none
	Attacked float64 `json:"attacked"` // attack fragments/s that were processed
	Next     string  `json:"next"`
	Lost     float64 `json:"lost"` // as in Point
}

// Mail fills the table of mail 002 for designs. k are constants of which only the
// private costs are used.
func Mail(ctx context.Context, rig *Rig, k *Constants, designs []string, seed uint64, tick func()) ([]MailCell, error) {
	p, _ := k.Machines("2013")
	var cells []cell.Cell
	var table []MailCell
	for _, d := range designs {
		for _, c := range mailColumns {
			x := cell.Cell{
				Design: d, CPUs: mailCPUs, Frags: c.load.Frags, Flows: 4, Outside: mailOutside, High: mailHigh,
				Machine: k.under(d, p), Seed: seed, Time: mailTime, Ports: 2, PortRate: 1e9 / mailFrame, Attack: c.load.Attack,
			}
			if c.load.Spread {
				x.Spread = mailCPUs
			}
			cells = append(cells, x)
			table = append(table, MailCell{Design: d, Load: c.load.Name, Mail: c.mail[d]})
		}
	}
	out, err := rig.RunAll(ctx, cells, tick)
	if err != nil {
		return nil, err
	}
	for i, o := range out {
		x := &table[i]
		x.Mbps, x.Attacked = o.Rate*mailPayload*8/1e6, o.Attacked
		if len(o.Sites) > 0 {
			x.Next, x.Lost = o.Sites[0].Name, o.Sites[0].Stall+o.Sites[0].Waited
		}
	}
	return table, nil
}

func writeMail(w io.Writer, table []MailCell) error {
	if len(table) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) }
	row("\nThe table of mail 002, Mbit/s, on an assumed machine of 2013 (the shape is meant, not the figures)\n\t")
	for _, c := range mailColumns {
		row("%s\t", c.load.Name)
	}
	row("\n")
	for i := 0; i < len(table); i += len(mailColumns) {
		of := table[i : i+len(mailColumns)]
		row("%s\t", of[0].Design)
		for _, x := range of {
			row("%.0f\t", x.Mbps)
		}
		row("\n")
		if of[0].Mail == 0 {
			continue
		}
		row("in the mail\t")
		for _, x := range of {
			row("%.0f\t", x.Mail)
		}
		row("\n")
	}
	if g, mail := Gains(table); len(g) > 0 {
		row("percpu-lru over global-lru\t")
		for _, x := range g {
			row("%.2f\t", x)
		}
		row("\nin the mail\t")
		for _, x := range mail {
			row("%.2f\t", x)
		}
		row("\n")
	}
	return t.Flush()
}

// Gains are how many times percpu-lru exceeds global-lru, by column, here and in
// the mail.
func Gains(table []MailCell) (ours, mail []float64) {
	for _, a := range table {
		if a.Design != "percpu-lru" {
			continue
		}
		for _, b := range table {
			if b.Design == "global-lru" && b.Load == a.Load {
				ours = append(ours, a.Mbps/b.Mbps)
				mail = append(mail, a.Mail/b.Mail)
			}
		}
	}
	return ours, mail
}
