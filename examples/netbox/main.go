// Command netbox writes the devices of a NetBox as JSON lines, for
// "lockstep entities sync -- netbox". It reads NETBOX_URL and NETBOX_TOKEN; its arguments
// are filters of NetBox's device list, such as site=zrh. It ends with 1 and says why if the
// list is not complete, so that nothing is synchronised.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

const (
	pageSize     = 500
	maxPageBytes = 64 << 20
)

// device is what this program reads of a device; docs.netbox.dev describes the rest. A field
// that is null there stays the zero value.
type device struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Serial string `json:"serial"`
	Status struct {
		Value string `json:"value"`
	} `json:"status"`
	Site       named   `json:"site"`
	Role       named   `json:"role"`
	DeviceRole named   `json:"device_role"` // before NetBox 4
	Platform   named   `json:"platform"`
	Tags       []named `json:"tags"`
	DeviceType struct {
		Model        string `json:"model"`
		Manufacturer named  `json:"manufacturer"`
	} `json:"device_type"`
	PrimaryIP struct {
		Address string `json:"address"`
	} `json:"primary_ip"`
	CustomFields map[string]json.RawMessage `json:"custom_fields"`
}

type named struct {
	Slug string `json:"slug"`
}

// entity is a line of the inventory.
type entity struct {
	Type       string         `json:"type"`
	ID         string         `json:"id"`
	Attributes map[string]any `json:"attributes"`
	Groups     []string       `json:"groups"`
}

// invalidRE matches what an id of an entity cannot have.
var invalidRE = regexp.MustCompile(`[^A-Za-z0-9._:@+-]`)

// idRE matches ids of entities, and reservedRE those that devices without a name of their own have.
var (
	idRE       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`)
	reservedRE = regexp.MustCompile(`^netbox-[0-9]+$`)
)

// entityID is the name of a device as an id, "" if it has none that can be one.
func (d device) entityID() string {
	id := invalidRE.ReplaceAllString(d.Name, "-")
	if !idRE.MatchString(id) || reservedRE.MatchString(id) {
		return ""
	}
	return id
}

// toEntities maps devices. The id of each is its name; or netbox-NUMBER if it has none that can be
// an id, or shares it with another one: NetBox knows names by site and tenant.
func toEntities(devices []device) []entity {
	named := map[string]int{}
	for _, d := range devices {
		named[d.entityID()]++
	}
	entities := make([]entity, len(devices))
	for i, d := range devices {
		entities[i] = d.toEntity()
		if id := d.entityID(); id != "" && named[id] == 1 {
			entities[i].ID = id
		}
	}
	return entities
}

// toEntity maps a device, with netbox-NUMBER as its id. What it does not have is null: a line that left
// it out would leave what is stored.
func (d device) toEntity() entity {
	e := entity{Type: "device", ID: fmt.Sprintf("netbox-%d", d.ID), Attributes: map[string]any{"netboxId": d.ID}, Groups: []string{}}
	role := d.Role.Slug
	if role == "" {
		role = d.DeviceRole.Slug
	}
	address, _, _ := strings.Cut(d.PrimaryIP.Address, "/")
	for name, value := range map[string]string{
		"site": d.Site.Slug, "role": role, "platform": d.Platform.Slug, "status": d.Status.Value, "serial": d.Serial,
		"model": d.DeviceType.Model, "manufacturer": d.DeviceType.Manufacturer.Slug, "address": address,
	} {
		if e.Attributes[name] = nil; value != "" {
			e.Attributes[name] = value
		}
	}
	for name, value := range d.CustomFields {
		e.Attributes["cf_"+name] = value
	}
	for _, tag := range d.Tags {
		e.Groups = append(e.Groups, tag.Slug)
	}
	return e
}

// source is a NetBox.
type source struct {
	url, token string
	client     *http.Client
}

// writeDevices writes all devices that match the filters, which it reads page by page.
func (s source) writeDevices(ctx context.Context, out io.Writer, filters url.Values) error {
	base, err := url.Parse(s.url)
	if err != nil || base.Host == "" {
		return fmt.Errorf("NETBOX_URL: %q is not the address of a NetBox", s.url)
	}
	query := url.Values{"limit": {fmt.Sprint(pageSize)}, "ordering": {"id"}}
	for name, values := range filters {
		query[name] = values
	}
	next := base.JoinPath("api/dcim/devices/")
	next.RawQuery = query.Encode()
	var devices []device
	total := 0
	for next != nil {
		var page struct {
			Count   int      `json:"count"`
			Next    string   `json:"next"`
			Results []device `json:"results"`
		}
		if err := s.get(ctx, next, &page); err != nil {
			return err
		}
		devices, total = append(devices, page.Results...), page.Count
		if page.Next == "" {
			break
		}
		// A NetBox behind a proxy may name itself otherwise: only the query is taken over, and the
		// token goes nowhere else.
		following, err := url.Parse(page.Next)
		if err != nil || len(page.Results) == 0 {
			return fmt.Errorf("the page after %d devices cannot be found: %q", len(devices), page.Next)
		}
		next.RawQuery = following.RawQuery
	}
	if len(devices) != total {
		return fmt.Errorf("NetBox has %d devices and has listed %d: they change; try again", total, len(devices))
	}
	lines := json.NewEncoder(out)
	for _, e := range toEntities(devices) {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// get reads one page.
func (s source) get(ctx context.Context, at *url.URL, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Token "+s.token)
	}
	w, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = w.Body.Close() }() // it was only read
	if w.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", at.Redacted(), w.Status)
	}
	if err := json.NewDecoder(io.LimitReader(w.Body, maxPageBytes)).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not a list of devices: %w", at.Redacted(), err)
	}
	return nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	filters := url.Values{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not a filter: want NAME=VALUE", arg)
		}
		filters.Add(name, value)
	}
	address := os.Getenv("NETBOX_URL")
	if address == "" {
		return errors.New("NETBOX_URL is not set")
	}
	lines := bufio.NewWriter(out)
	s := source{address, os.Getenv("NETBOX_TOKEN"), &http.Client{Timeout: time.Minute}}
	if err := s.writeDevices(ctx, lines, filters); err != nil {
		return err
	}
	return lines.Flush()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "netbox:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to do
	}
}
