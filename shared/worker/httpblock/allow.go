package httpblock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// Loopback in an allow list stands for every address of this machine's loopback.
const Loopback = "loopback"

// allowList is the hosts that may be called, each as a name or an address, with a
// port or for every port.
type allowList []string

func newAllowList(entries []string) allowList {
	list := make(allowList, len(entries))
	for i, e := range entries {
		list[i] = strings.ToLower(strings.TrimSpace(e))
	}
	return list
}

// url reports whether a URL may be called: it is HTTP, and its host, or host and
// port, is on the list, or it is on the loopback and the list says so.
func (l allowList) url(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return l.names(host, strings.ToLower(u.Host)) || (slices.Contains(l, Loopback) && loopback(host))
}

func (l allowList) names(host, withPort string) bool {
	return host != "" && (slices.Contains(l, host) || slices.Contains(l, withPort))
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// metadata is the instance metadata service's address by IPv6, which is not
// link-local like the others.
var metadata = netip.MustParseAddr("fd00:ec2::254")

// dial connects to an address only if the host that is called may lead there. Who
// rules over a name's addresses must not thereby rule over this machine: a name
// that leads to a link-local address, where instance metadata and credentials
// are, is refused, and so is one that leads to the loopback, unless the list
// holds the loopback, the address itself or "localhost". Other private addresses
// are where many blocks live: a name on the list is trusted with them.
func (l allowList) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	name = strings.ToLower(name)
	d := net.Dialer{Control: func(_, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		ip := at.Addr().Unmap()
		own := slices.Contains(l, Loopback) || (loopback(name) && l.names(name, net.JoinHostPort(name, port)))
		if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified() || ip == metadata || (ip.IsLoopback() && !own) {
			return fmt.Errorf("%s leads to %s: %w", name, ip, errForbidden)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}
