package process

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

// Where there is 127.0.0.1 only, what answers everybody has a port to which browsers do not connect, the same one
// again if it is free.
func TestListenHidden_TakesPortsThatBrowsersRefuse(t *testing.T) {
	portOf := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	var before string
	var all []net.Listener
	defer func() {
		for _, l := range all {
			_ = l.Close()
		}
	}()
	for {
		l, hidden, err := listenHidden("darwin", "127.0.0.1:8000")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
		if hidden != slices.Contains(browserPorts, portOf(l)) || !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			t.Fatalf("%s is hidden: %v", l.Addr(), hidden)
		}
		if !hidden {
			break
		}
		before = l.Addr().String()
	}
	if len(all) < 2 {
		t.Fatal("no port that browsers refuse is free on this machine")
	}
	if err := all[len(all)-2].Close(); err != nil {
		t.Fatal(err)
	}
	again, hidden, err := listenHidden("darwin", before)
	if err != nil || !hidden || net.JoinHostPort("127.0.0.1", strconv.Itoa(portOf(again))) != before {
		t.Fatalf("%v, %v, want %s", hidden, err, before)
	}
	_ = again.Close()
}
