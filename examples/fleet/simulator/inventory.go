package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Device is an entry of the inventory. It has no address, because the simulator's port is
// known only once it listens. The address of a device is base URL + "/devices/" + id.
type Device struct {
	Type       string            `json:"type"` // always "device"
	ID         string            `json:"id"`
	Attributes map[string]string `json:"attributes"`
	Groups     []string          `json:"groups"`
}

// maxInventoryLine bounds one line of an inventory, in bytes.
const maxInventoryLine = 64 << 10

// ReadInventory reads devices as JSON lines and skips empty lines. An error names the
// line.
func ReadInventory(r io.Reader) ([]Device, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxInventoryLine)
	var devices []Device
	seen := map[string]int{}
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var d Device
		if err := decodeStrict(bytes.NewReader(line), &d); err != nil {
			return nil, fmt.Errorf("inventory line %d: %w", number, err)
		}
		switch {
		case d.Type != "device":
			return nil, fmt.Errorf("inventory line %d: type is %q, want \"device\"", number, d.Type)
		case d.ID == "" || strings.ContainsAny(d.ID, "/ "):
			return nil, fmt.Errorf("inventory line %d: id %q is empty or contains a slash or a space", number, d.ID)
		case seen[d.ID] != 0:
			return nil, fmt.Errorf("inventory line %d: id %q is already on line %d", number, d.ID, seen[d.ID])
		}
		seen[d.ID] = number
		devices = append(devices, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("inventory line %d: %w", number+1, err)
	}
	return devices, nil
}

// WriteInventory writes devices as JSON lines that [ReadInventory] reads.
func WriteInventory(w io.Writer, devices []Device) error {
	lines := json.NewEncoder(w)
	for _, d := range devices {
		if err := lines.Encode(d); err != nil {
			return fmt.Errorf("write inventory: %w", err)
		}
	}
	return nil
}

// NumberedDevices returns n devices, always the same, from sw-001: the first tenth in
// group core, the next three tenths in distribution, the others in access, spread over
// four sites.
func NumberedDevices(n int) []Device {
	sites := [...]string{"amsterdam", "berlin", "lisbon", "oslo"}
	models := map[string]string{"core": "LX-9600", "distribution": "LX-5400", "access": "LX-2900"}
	devices := make([]Device, 0, max(n, 0))
	for i := range n {
		role := "access"
		switch {
		case i < n/10:
			role = "core"
		case i < n/10+3*n/10:
			role = "distribution"
		}
		devices = append(devices, Device{
			Type: "device",
			ID:   fmt.Sprintf("sw-%03d", i+1),
			Attributes: map[string]string{
				"site": sites[i%len(sites)], "role": role, "model": models[role],
			},
			Groups: []string{role},
		})
	}
	return devices
}

// decodeStrict decodes exactly one JSON value. It refuses unknown fields and further data.
func decodeStrict(r io.Reader, into any) error {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more data after the JSON value")
	}
	return nil
}
