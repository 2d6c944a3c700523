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

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Loopback in an allow list stands for localhost and every loopback address.
const Loopback = "loopback"

// loopbackExcept begins an entry that stands for Loopback without the addresses, as host:port, that follow.
const loopbackExcept = "loopback except "

// WithoutOwn is an allow list in which Loopback leaves out the parts of the stack itself, whose addresses are
// URLs or host:port; those that are not on this machine do not matter. An entry of its own allows one of them all
// the same.
func WithoutOwn(entries, own []string) []string {
	var except []string
	for _, address := range own {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			address = net.JoinHostPort(u.Hostname(), portOf(u))
		}
		host, port, err := net.SplitHostPort(address)
		if host = strings.ToLower(host); err != nil || !isLoopback(host) {
			continue
		}
		if host == "localhost" || host == "127.0.0.1" {
			except = append(except, net.JoinHostPort("localhost", port), net.JoinHostPort("127.0.0.1", port))
			host = "::1"
		}
		except = append(except, net.JoinHostPort(host, port))
	}
	list := slices.Clone(entries)
	for i, e := range list {
		if strings.ToLower(strings.TrimSpace(e)) == Loopback && len(except) > 0 {
			list[i] = loopbackExcept + strings.Join(except, " ")
		}
	}
	return list
}

// allowsLoopback reports whether Loopback is in the list and does not leave out the host with the port.
func (l allowList) allowsLoopback(host, port string) bool {
	for _, e := range l {
		except, ok := strings.CutPrefix(e, loopbackExcept)
		if e == Loopback || ok && !slices.Contains(strings.Fields(except), net.JoinHostPort(host, port)) {
			return true
		}
	}
	return false
}

// allowList lists the hosts that may be called: names or addresses, each with a port
// or for every port.
type allowList []string

func newAllowList(entries []string) allowList {
	list := make(allowList, len(entries))
	for i, e := range entries {
		list[i] = strings.ToLower(strings.TrimSpace(e))
	}
	return list
}

// hostsOf returns the hosts of endpoints, each with its port.
func hostsOf(endpoints workflow.Endpoints) (hosts []string) {
	for _, address := range endpoints {
		u, err := url.Parse(address)
		if err != nil {
			continue // it was checked in the configuration
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), portOf(u)))
	}
	return hosts
}

// portOf returns the port of an address.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// check returns why a URL may not be called; nil if it may.
func (l allowList) check(u *url.URL) error {
	switch {
	case l.allowsURL(u):
		return nil
	case isLoopback(strings.ToLower(u.Hostname())) && slices.ContainsFunc(l, func(e string) bool { return strings.HasPrefix(e, loopbackExcept) }):
		return errOwnAddress // all others of this machine are allowed
	}
	return errHostNotAllowed
}

// allowsURL reports whether a URL may be called: its scheme is http or https, and its
// host, with or without the port, is on the list. A loopback host is also allowed by
// Loopback.
func (l allowList) allowsURL(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host, port := strings.ToLower(u.Hostname()), portOf(u)
	return l.listsHost(host, port) || (isLoopback(host) && l.allowsLoopback(plainHost(host), port))
}

func (l allowList) listsHost(host, port string) bool {
	return host != "" && host != Loopback && (slices.Contains(l, host) || slices.Contains(l, net.JoinHostPort(host, port)))
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// plainHost is a host in the one form in which it is compared.
func plainHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return host
}

// awsMetadataPrefix contains the IPv6 addresses of AWS's instance metadata and
// credentials. Unlike the IPv4 addresses they are not link-local.
var awsMetadataPrefix = netip.MustParsePrefix("fd00:ec2::/32")

// allowsAddress reports whether an allowed host name may resolve to an address. The owner of a
// name's DNS records must not gain access to this machine. So link-local addresses, which include
// instance metadata and credentials, are never allowed. Loopback addresses are allowed only if the
// list has Loopback, the address itself or "localhost". Other private addresses are allowed,
// because many blocks have one.
func (l allowList) allowsAddress(name, port string, resolved netip.Addr) bool {
	ip := resolved.Unmap().WithZone("")
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), awsMetadataPrefix.Contains(ip):
		return false
	case ip.IsLoopback():
		return l.allowsLoopback(ip.String(), port) || (isLoopback(name) && l.listsHost(name, port))
	}
	return true
}

// dial connects to a host. It checks the resolved address, which is known only here;
// allowsURL has checked the name.
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
			return fmt.Errorf("%s resolves to %s: %w", name, at.Addr(), errHostNotAllowed)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}
