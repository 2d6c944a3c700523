package httpblock

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// Loopback in an allow list stands for every address of this machine's loopback.
const Loopback = "loopback"

// allowed reports whether an address may be called: its host, or host and port,
// is on the list, or it is on the loopback and the list says so.
func allowed(list []string, u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	return slices.ContainsFunc(list, func(entry string) bool {
		entry = strings.ToLower(entry)
		return entry == host || entry == strings.ToLower(u.Host) || (entry == Loopback && loopbackName(host))
	})
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// dialer connects only to where the name may lead: a name on the list that
// resolves to the loopback or to a link-local address, where instance metadata
// lives, is refused unless the list allows the loopback.
func dialer(list []string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		ip := net.ParseIP(host)
		switch {
		case ip == nil, ip.IsLinkLocalUnicast(), ip.IsLinkLocalMulticast(), ip.IsUnspecified(),
			ip.IsLoopback() && !slices.Contains(list, Loopback) && !slices.Contains(list, host):
			return fmt.Errorf("the name leads to %s, which is not allowed", address)
		}
		return nil
	}}
	return d.DialContext
}
