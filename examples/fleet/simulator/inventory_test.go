package simulator_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

func TestReadInventory_ExampleMatchesNumberedDevices(t *testing.T) {
	file, err := os.ReadFile("../inventory.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := simulator.WriteInventory(&want, simulator.NumberedDevices(100)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, want.Bytes()) {
		t.Error("inventory.jsonl differs; write it with: fleet-devices --devices 100 --print-inventory")
	}
	devices, err := simulator.ReadInventory(bytes.NewReader(file))
	if err != nil || len(devices) != 100 {
		t.Fatalf("%d devices, error %v", len(devices), err)
	}
	groups := map[string]int{}
	for _, d := range devices {
		for _, g := range d.Groups {
			groups[g]++
		}
		if d.Attributes["url"] != "" || d.Attributes["site"] == "" || d.Attributes["model"] == "" || d.Attributes["role"] != d.Groups[0] {
			t.Errorf("attributes of %s: %v", d.ID, d.Attributes)
		}
	}
	if groups["core"] != 10 || groups["distribution"] != 30 || groups["access"] != 60 {
		t.Errorf("groups %v", groups)
	}
	if devices[0].ID != "sw-001" || devices[99].ID != "sw-100" {
		t.Errorf("ids %s to %s", devices[0].ID, devices[99].ID)
	}
}

func TestHandler_ServesInventory(t *testing.T) {
	r := newFixture(t, simulator.Options{Devices: simulator.NumberedDevices(1000)})
	response, err := http.Get(r.url + "/inventory")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	devices, err := simulator.ReadInventory(bytes.NewReader(text))
	if err != nil || len(devices) != 1000 || devices[999].ID != "sw-1000" {
		t.Errorf("%d devices, error %v", len(devices), err)
	}
}

func TestReadInventory_ErrorNamesLine(t *testing.T) {
	good := `{"type":"device","id":"sw-001","attributes":{},"groups":[]}`
	for name, bad := range map[string]string{
		"no JSON":       `sw-002`,
		"unknown field": `{"type":"device","id":"sw-002","url":"http://somewhere"}`,
		"wrong type":    `{"type":"router","id":"sw-002"}`,
		"no id":         `{"type":"device"}`,
		"slash":         `{"type":"device","id":"a/b"}`,
		"twice":         good,
		"two on a line": `{"type":"device","id":"sw-002"}{"type":"device","id":"sw-003"}`,
		"huge":          `{"type":"device","id":"` + strings.Repeat("x", 100_000) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := simulator.ReadInventory(strings.NewReader(good + "\n\n" + bad + "\n"))
			if err == nil || !strings.Contains(err.Error(), "line 3") {
				t.Errorf("error %v, want one that names line 3", err)
			}
		})
	}
}

func TestExampleDefinition_IsValid(t *testing.T) {
	text, err := os.ReadFile("../upgrade_firmware.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Package, Name, Version string
		SeedEntity             string `yaml:"seedEntity"`
		Parameters             map[string]any
		Config                 struct {
			MaxInFlight      int `yaml:"maxInFlight"`
			FailureTolerance int `yaml:"failureTolerance"`
		}
		Steps []struct {
			Label         string
			FunctionBlock string `yaml:"functionBlock"`
			RunOn         string `yaml:"runOn"`
			Condition     string
			Parameters    map[string]string
			Retry         map[string]any
		}
	}
	if err := yaml.UnmarshalWithOptions(text, &definition, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if got := definition.Package + "/" + definition.Name + " " + definition.Version; got != "fleet/upgrade_firmware 1.0.0" {
		t.Errorf("got %s", got)
	}
	var steps []string
	for _, s := range definition.Steps {
		steps = append(steps, s.Label+" "+s.FunctionBlock+" "+s.RunOn)
	}
	want := "inventory fleet/show_version:1 device, upgrade fleet/upgrade:1 device, verify fleet/verify:1 device, report fleet/report:1 global"
	if got := strings.Join(steps, ", "); got != want {
		t.Errorf("steps\n got %s\nwant %s", got, want)
	}
}
