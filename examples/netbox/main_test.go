package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fakeNetBox serves devices as NetBox's REST API does: pages with the total and the address of
// the next one, which names a host that only it knows.
type fakeNetBox struct {
	devices []string
	pageOf  int
	broken  int // answers 500 from this offset on; 0 never
	grows   bool
}

func (f *fakeNetBox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.URL.Path != "/netbox/api/dcim/devices/" || r.Header.Get("Authorization") != "Token secret" || q.Get("site") != "zrh" {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	offset, _ := strconv.Atoi(q.Get("offset"))
	if f.broken > 0 && offset >= f.broken {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	end, next, count := min(offset+f.pageOf, len(f.devices)), "null", len(f.devices)
	if end < len(f.devices) {
		q.Set("offset", strconv.Itoa(end))
		next = strconv.Quote("http://internal.invalid/api/dcim/devices/?" + q.Encode())
	}
	if f.grows && offset > 0 {
		count++
	}
	fmt.Fprintf(w, `{"count":%d,"next":%s,"previous":null,"results":[%s]}`, count, next, strings.Join(f.devices[offset:end], ","))
}

const core = `{"id":7,"name":"sw 001/core","serial":"S1","status":{"value":"active","label":"Active"},"site":{"id":1,"slug":"zrh"},"role":{"slug":"core-switch"},
"platform":null,"tags":[{"slug":"managed"},{"slug":"lab"}],"device_type":{"model":"X1","manufacturer":{"slug":"acme"}},"primary_ip":{"address":"192.0.2.7/24"},
"custom_fields":{"rack_unit":4,"owner":null}}`

func serve(t *testing.T, f *fakeNetBox) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Setenv("NETBOX_URL", server.URL+"/netbox")
	t.Setenv("NETBOX_TOKEN", "secret")
}

// Devices become entities, over all pages.
func TestNetBox_DevicesBecomeEntities(t *testing.T) {
	f := &fakeNetBox{devices: []string{core}, pageOf: 2}
	for i := range 4 {
		f.devices = append(f.devices, fmt.Sprintf(`{"id":%d,"name":null,"device_role":{"slug":"edge"},"primary_ip":null,"tags":[],"custom_fields":{}}`, 100+i))
	}
	serve(t, f)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"site=zrh"}, &out); err != nil {
		t.Fatal(err)
	}
	var all []workflow.Entity
	issues, err := inventory.ReadImport(&out, 10, func(_ int, e workflow.Entity) error {
		all = append(all, e)
		return nil
	})
	if err != nil || len(issues) > 0 || len(all) != 5 {
		t.Fatalf("%d entities, %v, %v", len(all), issues, err)
	}
	var attributes map[string]any
	if err := json.Unmarshal(all[0].Attributes, &attributes); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"netboxId": 7.0, "site": "zrh", "role": "core-switch", "status": "active", "serial": "S1", "model": "X1", "manufacturer": "acme", "address": "192.0.2.7", "cf_rack_unit": 4.0, "platform": nil, "cf_owner": nil}
	if all[0].ID != "sw-001-core" || fmt.Sprint(attributes) != fmt.Sprint(want) || strings.Join(all[0].Groups, " ") != "managed lab" {
		t.Errorf("%+v %s", all[0], all[0].Attributes)
	}
	if string(all[1].Attributes) != `{"address":null,"manufacturer":null,"model":null,"netboxId":100,"platform":null,"role":"edge","serial":null,"site":null,"status":null}` || all[1].ID != "netbox-100" {
		t.Errorf("%+v %s", all[1], all[1].Attributes)
	}
}

// A name that cannot be an id, or that two devices have, does not stop the others.
func TestNetBox_NamesThatAreNoIDs(t *testing.T) {
	f := &fakeNetBox{pageOf: 2}
	names := []string{"sw-1", "sw 1", "_spare", strings.Repeat("x", 129), "sw-2", "netbox-1", "-", "sw-3"}
	for i, name := range names {
		f.devices = append(f.devices, fmt.Sprintf(`{"id":%d,"name":%q,"tags":[],"custom_fields":{}}`, i+1, name))
	}
	serve(t, f)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"site=zrh"}, &out); err != nil {
		t.Fatal(err)
	}
	var ids []string
	issues, err := inventory.ReadImport(&out, 10, func(_ int, e workflow.Entity) error {
		ids = append(ids, e.ID)
		return nil
	})
	if want := "netbox-1 netbox-2 netbox-3 netbox-4 sw-2 netbox-6 netbox-7 sw-3"; err != nil || len(issues) > 0 || strings.Join(ids, " ") != want {
		t.Errorf("%v, want %s; %v, %v", ids, want, issues, err)
	}
}

// A list that is not complete is a failure, and says why.
func TestNetBox_FailsIfTheListIsNotComplete(t *testing.T) {
	for want, f := range map[string]*fakeNetBox{
		"500 Internal Server Error": {devices: []string{core, core, core}, pageOf: 1, broken: 2},
		"try again":                 {devices: []string{core, core}, pageOf: 1, grows: true},
		"403 Forbidden":             nil,
		"not a list of devices":     {devices: []string{`{"id":"x"}`}, pageOf: 1},
	} {
		args := []string{"site=zrh"}
		if f == nil {
			f, args = &fakeNetBox{devices: []string{core}, pageOf: 1}, nil
		}
		serve(t, f)
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	t.Setenv("NETBOX_URL", "")
	if err := run(t.Context(), nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "NETBOX_URL") {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"zrh"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "NAME=VALUE") {
		t.Error(err)
	}
}
