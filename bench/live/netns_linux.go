package live

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// enter puts the calling goroutine on a thread of its own, in a network
// namespace of its own. Both last as long as the goroutine: the thread is never
// unlocked, so it ends with it.
func enter() error {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if errors.Is(err, unix.EINVAL) { // a kernel that was built without them
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	return nil
}

// openTUN makes a TUN device in the calling thread's namespace. It lasts until
// the descriptor is closed.
func openTUN(name string) (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("making the device %s: %w", name, err)
	}
	return fd, nil
}

// address gives a device its addresses and brings it up.
func address(nl *netlink.Handle, name string, addrs ...string) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range addrs {
		a, err := netlink.ParseAddr(s)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := nl.AddrAdd(link, a); err != nil {
			return fmt.Errorf("%s: address %s: %w", name, s, err)
		}
	}
	return nil
}

// sysctl is one setting of the namespace, kept open.
type sysctl struct {
	file *os.File
	now  int
}

func openSysctl(name string) (*sysctl, error) {
	f, err := os.OpenFile("/proc/sys/net/"+name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &sysctl{f, -1}, nil
}

// set writes the value unless it is set already.
func (s *sysctl) set(v int) error {
	if s.now == v {
		return nil
	}
	if _, err := s.file.WriteAt(strconv.AppendInt(nil, int64(v), 10), 0); err != nil {
		return err
	}
	s.now = v
	return nil
}

// setSysctls writes settings that stay.
func setSysctls(values map[string]string) error {
	for name, v := range values {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(v), 0); err != nil {
			return err
		}
	}
	return nil
}
