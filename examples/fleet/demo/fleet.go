package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// fleet calls the devices over HTTP. What they report proves the outcome of an execution.
type fleet struct {
	url    string
	ids    []string
	client *http.Client
}

const (
	requestTimeout        = 10 * time.Second // of one request to a device
	maxConcurrentRequests = 16
)

func newFleet(url string, ids []string) *fleet {
	return &fleet{url: url, ids: ids, client: &http.Client{Timeout: requestTimeout}}
}

// uniformVersions maps every device to one version.
func (f *fleet) uniformVersions(version string) map[string]string {
	want := make(map[string]string, len(f.ids))
	for _, id := range f.ids {
		want[id] = version
	}
	return want
}

// send sends a request and decodes the response.
func (f *fleet) send(ctx context.Context, method, path, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	reply, err := f.client.Do(req)
	if err != nil {
		return fmt.Errorf("cannot reach the devices: %w", err)
	}
	defer func() { _ = reply.Body.Close() }() // read to the end
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: the devices answered %s", method, path, reply.Status)
	}
	if err := json.NewDecoder(reply.Body).Decode(into); err != nil {
		return fmt.Errorf("%s %s: cannot parse the response: %w", method, path, err)
	}
	return nil
}

// setBehaviour sets the behaviour of the devices of a path below /control; "" is all.
func (f *fleet) setBehaviour(ctx context.Context, path, behaviour string) error {
	var switched struct{ Devices int }
	return f.send(ctx, http.MethodPost, "/control"+path, behaviour, &switched)
}

// versions reads the version of each device.
func (f *fleet) versions(ctx context.Context) (map[string]string, error) {
	found := make(map[string]string, len(f.ids))
	err := f.forEachDevice(ctx, func(id string, mu *sync.Mutex) error {
		var s simulator.State
		if err := f.send(ctx, http.MethodGet, "/devices/"+id, "", &s); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		mu.Lock()
		defer mu.Unlock()
		found[id] = s.Version
		return nil
	})
	return found, err
}

// forEachDevice calls do for every device, several at a time. It returns the error of the
// first device that failed, in the order of the inventory.
func (f *fleet) forEachDevice(ctx context.Context, do func(id string, mu *sync.Mutex) error) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make([]error, len(f.ids))
	slots := make(chan struct{}, maxConcurrentRequests)
	for i, id := range f.ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = do(id, &mu)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyVersions compares the versions of the devices with the expected ones. The error
// names every device that differs.
func (f *fleet) verifyVersions(ctx context.Context, want map[string]string) error {
	found, err := f.versions(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if found[id] != want[id] {
			wrong = append(wrong, fmt.Sprintf("%s has version %s, want %s", id, found[id], want[id]))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d devices are not as expected: %s", len(wrong), len(want), strings.Join(wrong, "; "))
	}
	return nil
}

// verifyLogs checks the devices' own logs.
func (f *fleet) verifyLogs(ctx context.Context) error {
	var report struct{ Violations []simulator.Violation }
	if err := f.send(ctx, http.MethodGet, "/judge", "", &report); err != nil {
		return err
	}
	if len(report.Violations) == 0 {
		return nil
	}
	texts := make([]string, len(report.Violations))
	for i, v := range report.Violations {
		texts[i] = v.String()
	}
	return fmt.Errorf("the devices' logs show violations: %s", strings.Join(texts, "; "))
}

// countRolledBack counts the devices whose own log shows a rollback from a version.
func (f *fleet) countRolledBack(ctx context.Context, version string) (int, error) {
	count := 0
	err := f.forEachDevice(ctx, func(id string, mu *sync.Mutex) error {
		var log struct{ Items []simulator.LogEntry }
		if err := f.send(ctx, http.MethodGet, "/devices/"+id+"/log", "", &log); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		rolledBack := slices.ContainsFunc(log.Items, func(e simulator.LogEntry) bool {
			return e.Operation == simulator.OpRollback && e.Effective && e.From == version
		})
		if rolledBack {
			mu.Lock()
			defer mu.Unlock()
			count++
		}
		return nil
	})
	return count, err
}
