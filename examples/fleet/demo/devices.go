package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// ask reads something from the devices.
func (d *Demo) ask(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.devices+path, nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the devices cannot be asked: %w", err)
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	return json.NewDecoder(reply.Body).Decode(into)
}

// misbehave switches a device's behaviour.
func (d *Demo) misbehave(ctx context.Context, id, behaviour string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.devices+"/control/"+id, bytes.NewReader([]byte(behaviour)))
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = reply.Body.Close() // its status says all
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("device %s cannot be switched: %s", id, reply.Status)
	}
	return nil
}

// allRun checks that every device itself reports the version, and that the
// devices' own logs hold no change that should not have been.
func (d *Demo) allRun(ctx context.Context, version string) error {
	var fleet struct {
		Items []struct {
			ID      string `json:"id"`
			Version string `json:"version"`
		} `json:"items"`
	}
	if err := d.ask(ctx, "/devices", &fleet); err != nil {
		return err
	}
	var wrong []string
	for _, device := range fleet.Items {
		if device.Version != version {
			wrong = append(wrong, device.ID+" runs "+device.Version)
		}
	}
	var judged struct {
		Violations []json.RawMessage `json:"violations"`
	}
	if err := d.ask(ctx, "/judge", &judged); err != nil {
		return err
	}
	switch {
	case len(fleet.Items) != d.count:
		return fmt.Errorf("%d devices answer, %d were imported", len(fleet.Items), d.count)
	case len(wrong) > 0:
		return fmt.Errorf("not every device runs %s: %s", version, strings.Join(wrong, ", "))
	case len(judged.Violations) > 0:
		return fmt.Errorf("the devices' logs hold changes that should not have been: %s", judged.Violations)
	}
	fmt.Fprintf(d.Out, "All %d devices report %s themselves, and find nothing wrong in their logs.\n", len(fleet.Items), version)
	return nil
}
