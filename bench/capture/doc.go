// Package capture reads packet captures as a reassembler needs them, and writes
// them back.
//
// A Reader takes pcap and pcapng, either byte order, microseconds or
// nanoseconds, gzip or plain, and recognises which by content. Packet.FindIP
// says where the IP packet of a frame begins, for the link types that carry IP
// without a tunnel:
//
//	Ethernet (1)            with up to four VLAN tags (802.1Q, QinQ)
//	raw IP                  12, 14, 101, and 228 (IPv4), 229 (IPv6)
//	PPP (9, 50)             with or without address and control field
//	Linux cooked            SLL (113) and SLL2 (276)
//	loopback                NULL (0), either byte order, and LOOP (108)
//
// Link types may be mixed in one pcapng file. Tunnels (PPPoE, MPLS, GRE) are not
// entered: what counts is the outermost IP packet.
//
// Files are parsed and written by gopacket's pcapgo. Around it this package adds
// what a replay needs: an end of file in the middle of a packet is an error in
// every format, damaged gzip data is an error and no end, and interfaces are
// numbered through all sections of a file.
//
// Not kept when pcapng is rewritten: blocks that hold no packets and no
// interfaces (statistics, names, secrets), the frame check sequence length of an
// interface, and resolutions other than nanoseconds, which all times become.
// pcapgo scales clocks by whole numbers, so where one ticks in powers of two its
// fractions of a second are up to half a second off.
package capture
