package live

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"corelane/internal/vectors"
)

// Ask runs the steps of c, whose packets these are, on an empty table, sets c.Out
// to what each caused, and empties the table.
func (h *Host) Ask(c *vectors.Case, packets [][]byte) error {
	if err := h.configure(c.Cfg); err != nil {
		return err
	}
	c.Out = make([]vectors.Out, len(c.Steps))
	rare := slices.ContainsFunc(c.Steps, func(s vectors.Step) bool { return s.Cut > 0 || s.Length != 0 || s.Patch != nil })
	start, due := time.Now(), time.Duration(0)
	h.late = 0
	for i := range c.Steps {
		s, out := &c.Steps[i], &c.Out[i]
		if s.Pause > 0 {
			due += time.Duration(s.Pause) * time.Millisecond
			time.Sleep(time.Until(start.Add(due)))
		} else if err := h.send(s.If, packets[i], out); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := h.outcome(out, packets, rare || i == len(c.Steps)-1); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		h.late = max(h.late, time.Since(start)-due)
	}
	return h.clean(c)
}

// Late is by how much the steps of the last case came late, at most, where it has
// pauses.
func (h *Host) Late() time.Duration { return h.late }

func (h *Host) configure(cfg vectors.Cfg) error {
	dist := 64
	if cfg.MaxDist != 0 {
		dist = max(cfg.MaxDist, 0)
	}
	high, seconds := defaultHigh, 30
	if cfg.High != 0 {
		high = cfg.High
	}
	if cfg.TimeoutMS != 0 {
		seconds = cfg.TimeoutMS / 1000
	}
	err := errors.Join(h.high.set(high), h.timeout.set(seconds))
	if h.maxDist != nil {
		err = errors.Join(err, h.maxDist.set(dist))
	}
	return err
}

// send lets a packet arrive. The kernel has done all it does with it when the
// write returns: TUN calls the IP input itself, on the writing thread.
func (h *Host) send(iface int, packet []byte, out *vectors.Out) error {
	_, err := unix.Write(h.tun[iface], packet)
	if errors.Is(err, unix.EINVAL) { // not IP at all
		out.Other = map[string]int{"DeviceRefused": 1}
		return nil
	}
	return err
}

// outcome notes what changed since the last one.
func (h *Host) outcome(out *vectors.Out, packets [][]byte, rare bool) error {
	now := h.last
	if err := h.measure(&now, rare); err != nil {
		return err
	}
	var moved [5]int
	for i := range moved {
		moved[i] = now.reasm[i] - h.last.reasm[i]
	}
	if moved != [5]int{} {
		out.Counters = moved[:]
	}
	for i, name := range otherNames {
		if n := now.other[i] - h.last.other[i]; n != 0 {
			if out.Other == nil {
				out.Other = make(map[string]int)
			}
			out.Other[name] = n
		}
	}
	out.Queues = now.held[:]
	h.last = now
	for _, l := range h.listeners {
		if err := h.receive(l, out); err != nil {
			return err
		}
	}
	for i := range h.tun {
		if err := h.errors(i, out, packets); err != nil {
			return err
		}
	}
	return nil
}

// measure reads the counters; rare ones if it must, or if they may have moved.
func (h *Host) measure(now *counts, rare bool) error {
	fails := now.reasm[2]
	if err := h.counters.read(now); err != nil {
		return err
	}
	if rare || now.reasm[2] != fails {
		return h.counters.readRare(now)
	}
	return nil
}

// receive notes the datagrams that a listener has got.
func (h *Host) receive(l listener, out *vectors.Out) error {
	for {
		n, nc, flags, _, err := unix.Recvmsg(l.fd, h.buf, h.control, 0)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return errors.New("receiving: cut off")
		}
		d := vectors.Datagram{Proto: l.proto}
		payload := h.buf[:n]
		if h.family == 4 {
			d.Hdr = hex.EncodeToString(payload[:payload[0]&15*4])
			payload = payload[payload[0]&15*4:]
		}
		if err := h.ancillary(h.control[:nc], &d); err != nil {
			return err
		}
		sum := sha256.Sum256(payload)
		d.Len, d.Sum, d.Payload = len(payload), hex.EncodeToString(sum[:8]), bytes.Clone(payload)
		out.Datagrams = append(out.Datagrams, d)
	}
}

func (h *Host) ancillary(b []byte, d *vectors.Datagram) error {
	ms, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return err
	}
	for _, m := range ms {
		switch {
		case h.family == 4 && m.Header.Type == unix.IP_RECVFRAGSIZE,
			h.family == 6 && m.Header.Type == unix.IPV6_RECVFRAGSIZE:
			d.Max = int(binary.NativeEndian.Uint32(m.Data))
		case h.family == 4:
		case m.Header.Type == unix.IPV6_TCLASS:
			d.Class = int(binary.NativeEndian.Uint32(m.Data))
		case m.Header.Type == unix.IPV6_HOPLIMIT:
			d.Hop = int(binary.NativeEndian.Uint32(m.Data))
		case m.Header.Type == ipv6FlowInfo:
			d.Flow = int(binary.BigEndian.Uint32(m.Data) & 0xfffff)
		case m.Header.Type == unix.IPV6_HOPOPTS:
			d.HBH = hex.EncodeToString(m.Data)
		case m.Header.Type == unix.IPV6_DSTOPTS:
			d.DOpt = hex.EncodeToString(m.Data)
		case m.Header.Type == unix.IPV6_RTHDR:
			d.RT = hex.EncodeToString(m.Data)
		}
	}
	return nil
}

// errors notes the ICMP errors that left by a device. What else leaves by it, as
// reports of group membership, is the kernel's own affair.
func (h *Host) errors(iface int, out *vectors.Out, packets [][]byte) error {
	for {
		n, err := unix.Read(h.tun[iface], h.buf)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the device: %w", err)
		}
		b := h.buf[:n]
		switch {
		case b[0]>>4 != byte(h.family):
			continue
		case h.family == 4 && b[9] == unix.IPPROTO_ICMP:
			b = b[b[0]&15*4:]
		case h.family == 6 && b[6] == unix.IPPROTO_ICMPV6 && b[40] < 128:
			b = b[40:]
		default:
			continue
		}
		e := vectors.ICMP{Type: int(b[0]), Code: int(b[1]), If: iface, N: len(b) - 8, Of: -1}
		switch {
		case h.family == 4 && e.Type == 12:
			e.Ptr = int(b[4])
		case h.family == 6 && e.Type == 4:
			e.Ptr = int(binary.BigEndian.Uint32(b[4:]))
		}
		quote := b[8:]
		e.Of = slices.IndexFunc(packets, func(p []byte) bool { return bytes.HasPrefix(p, quote) })
		if e.Of < 0 {
			e.Quote = hex.EncodeToString(quote[:min(len(quote), 64)])
		}
		out.ICMP = append(out.ICMP, e)
	}
}

// clean empties the table: a last fragment of no length discards its queue.
func (h *Host) clean(c *vectors.Case) error {
	if h.last.held == [2]int{} {
		return nil
	}
	// Above the limit it would be refused.
	if err := h.high.set(defaultHigh); err != nil {
		return err
	}
	for i := range c.Steps {
		s := c.Steps[i]
		if s.Pause > 0 || h.family == 6 && s.Plain {
			continue
		}
		s = vectors.Step{Src: s.Src, Dst: s.Dst, If: s.If, ID: s.ID, Proto: s.Proto, Off: 8}
		if _, err := unix.Write(h.tun[s.If], s.Packet(h.family, 0)); err != nil {
			return fmt.Errorf("cleaning: %w", err)
		}
		if err := h.counters.table(&h.last); err != nil {
			return err
		}
		if h.last.held == [2]int{} {
			break
		}
	}
	var unseen vectors.Out
	if err := h.outcome(&unseen, nil, true); err != nil {
		return err
	}
	if h.last.held != [2]int{} || len(unseen.Datagrams)+len(unseen.ICMP) > 0 {
		return fmt.Errorf("cleaning left %v in the table, and made %+v", h.last.held, unseen)
	}
	return nil
}
