package httpblock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"testing"
)

func TestAllowList_AllowsURL(t *testing.T) {
	for _, c := range []struct {
		list string
		url  string
		want bool
	}{
		{"blocks.example", "http://blocks.example/run", true},
		{"blocks.example", "https://blocks.example:8443/run", true},
		{" Blocks.Example ", "http://BLOCKS.example", true},
		{"blocks.example:8080", "http://blocks.example:8080/", true},
		{"blocks.example:8080", "http://blocks.example:8081/", false},
		{"blocks.example:8080", "http://blocks.example/", false},
		{"blocks.example:443", "https://blocks.example/", true},
		{"blocks.example:443", "http://blocks.example/", false},
		{"blocks.example", "http://evil.example/?blocks.example", false},
		{"blocks.example", "http://blocks.example.evil.example/", false},
		{"blocks.example", "http://sub.blocks.example/", false},
		{"blocks.example", "http://blocks.example@evil.example/", false},
		{"blocks.example", "ftp://blocks.example/", false},
		{"blocks.example", "file:///etc/passwd", false},
		{"blocks.example", "blocks.example/run", false},
		{"", "http:///run", false},
		{"10.0.0.7", "http://10.0.0.7:9000/", true},
		{"[::1]:9000", "http://[::1]:9000/", true},
		{"::1", "http://[::1]:9000/", true},
		{Loopback, "http://localhost:1234/", true},
		{Loopback, "http://127.0.0.1:1234/", true},
		{Loopback, "http://127.8.0.1/", true},
		{Loopback, "http://[::1]:1234/", true},
		{Loopback, "http://[::ffff:127.0.0.1]/", true},
		{Loopback, "http://localhost.evil.example/", false},
		{Loopback, "http://127.0.0.1.evil.example/", false},
		{Loopback, "http://loopback/", false},
		{Loopback, "http://10.0.0.7/", false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := newAllowList([]string{c.list}).allowsURL(u); got != c.want {
			t.Errorf("list %q, URL %s: %v, want %v", c.list, c.url, got, c.want)
		}
	}
	if u, _ := url.Parse("http://localhost/"); newAllowList(nil).allowsURL(u) {
		t.Error("an empty list allows localhost")
	}
}

// A host name on the list may not resolve to every address.
func TestAllowList_AllowsAddress(t *testing.T) {
	for _, c := range []struct {
		list string
		name string
		addr string
		want bool
	}{
		{"blocks.example", "blocks.example", "203.0.113.7", true},
		{"blocks.example", "blocks.example", "10.0.0.7", true},
		{"blocks.example", "blocks.example", "fd12::7", true},
		{"blocks.example", "blocks.example", "127.0.0.1", false},
		{"blocks.example", "blocks.example", "::1", false},
		{"blocks.example", "blocks.example", "::ffff:127.0.0.1", false},
		{"blocks.example", "blocks.example", "0.0.0.0", false},
		{"blocks.example", "blocks.example", "169.254.169.254", false},
		{"blocks.example", "blocks.example", "::ffff:169.254.170.2", false},
		{"blocks.example", "blocks.example", "fe80::1%lo", false},
		{"blocks.example", "blocks.example", "fd00:ec2::254", false},
		{"blocks.example", "blocks.example", "fd00:ec2::23%lo", false},
		{"blocks.example", "blocks.example", "224.0.0.1", false},
		{"169.254.169.254", "169.254.169.254", "169.254.169.254", false},
		{Loopback, "localhost", "127.0.0.1", true},
		{Loopback, "localhost", "169.254.169.254", false},
		{"localhost", "localhost", "127.0.0.1", true},
		{"localhost:80", "localhost", "::1", true},
		{"localhost:81", "localhost", "::1", false},
		{"127.0.0.1", "127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "localhost", "127.0.0.1", false},
	} {
		if got := newAllowList([]string{c.list}).allowsAddress(c.name, "80", netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("list %q, %s resolves to %s: %v, want %v", c.list, c.name, c.addr, got, c.want)
		}
	}
}

// dial checks the address it connects to, even if the name was allowed.
func TestAllowList_DialChecksResolvedAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	if _, err := newAllowList([]string{"blocks.example"}).dial(context.Background(), "tcp", address); !errors.Is(err, errHostNotAllowed) {
		t.Errorf("a name that resolves to the loopback: %v", err)
	}
	if _, err := newAllowList([]string{"169.254.169.254"}).dial(context.Background(), "tcp", "169.254.169.254:80"); !errors.Is(err, errHostNotAllowed) {
		t.Errorf("the metadata address: %v", err)
	}
	if _, err := newAllowList([]string{Loopback}).dial(context.Background(), "tcp", "no port"); err == nil {
		t.Error("an address without a port is dialled")
	}
	conn, err := newAllowList([]string{Loopback}).dial(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
