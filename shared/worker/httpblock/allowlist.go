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

// allowsURL reports whether a URL may be called: it is HTTP, and its host, or host and
// port, is on the list, or it is on the loopback and the list says so.
func (l allowList) allowsURL(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return l.listsHost(host, port) || (slices.Contains(l, Loopback) && isLoopback(host))
}

func (l allowList) listsHost(host, port string) bool {
	return host != "" && host != Loopback && (slices.Contains(l, host) || slices.Contains(l, net.JoinHostPort(host, port)))
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// awsMetadataPrefix is where AWS serves instance metadata and credentials by IPv6, which
// is not link-local like the others.
var awsMetadataPrefix = netip.MustParsePrefix("fd00:ec2::/32")

// allowsAddress reports whether the name that is called may lead to an address. Who rules
// over a name's addresses must not thereby rule over this machine: a name that
// leads to a link-local address, where instance metadata and credentials are, is
// refused, and so is one that leads to the loopback, unless the list holds the
// loopback, the address itself or "localhost". Other private addresses are where
// many blocks live: a name on the list is trusted with them.
func (l allowList) allowsAddress(name, port string, to netip.Addr) bool {
	ip := to.Unmap().WithZone("")
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), awsMetadataPrefix.Contains(ip):
		return false
	case ip.IsLoopback():
		return slices.Contains(l, Loopback) || (isLoopback(name) && l.listsHost(name, port))
	}
	return true
}

// dial connects to an address only if the host that is called may lead there: the
// name was judged before, but only here is it known where it leads.
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
		if !l.allowsAddress(name, port, at.Addr()) {
			return fmt.Errorf("%s leads to %s: %w", name, at.Addr(), errHostNotAllowed)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}
