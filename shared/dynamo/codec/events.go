package codec

import (
	"encoding/json"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// eventLine is one event as it is stored. Events are one array: the sequence number
// of the first, the Unix millisecond of the first, and a line for each,
//
//	[milliseconds since the previous, type, to, from, step, entity, actor, data, layer]
//
// without the empty members at the end. A from that equals the to of the previous
// line of the same layer is written "=", and a layer that the type's first word
// implies is left out.
type eventLine struct {
	SincePrevious int64
	Type          string
	To            string
	From          string
	Step          string
	Entity        string
	Actor         string
	Data          json.RawMessage
	Layer         string
}

const sameAsPrevious = "="

// EncodeEvents encodes a page of events.
func EncodeEvents(events []workflow.Event) ([]byte, error) {
	lines, err := encodeEventLines(events)
	if err != nil {
		return nil, err
	}
	return executionCompressor.Compress(lines), nil
}

// DecodeEvents decodes a page of events.
func DecodeEvents(packed []byte) ([]workflow.Event, error) {
	plain, err := executionCompressor.Decompress(packed)
	if err != nil {
		return nil, err
	}
	return decodeEventLines(plain)
}

func encodeEventLines(events []workflow.Event) (json.RawMessage, error) {
	if len(events) == 0 {
		return json.RawMessage("[]"), nil
	}
	at := events[0].At.UnixMilli()
	all := []any{events[0].Sequence, at}
	previous := map[string]string{}
	for i, e := range events {
		if e.Sequence != events[0].Sequence+int64(i) {
			return nil, workflow.Errorf(workflow.CodeInternal, "event %d follows %d: the history has a gap", e.Sequence, events[0].Sequence+int64(i)-1)
		}
		from, layer := e.From, e.Layer
		if from != "" && from == previous[layer] {
			from = sameAsPrevious
		}
		previous[layer] = e.To
		if layer == defaultLayer(e.Type) {
			layer = ""
		}
		line := []any{e.At.UnixMilli() - at, e.Type, e.To, from, e.Step, e.Entity, e.Actor, e.Data, layer}
		at = e.At.UnixMilli()
		for isEmpty(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		all = append(all, line)
	}
	raw, err := workflow.EncodeJSON(all)
	if err != nil {
		return nil, table.EncodeError(err)
	}
	return raw, nil
}

// isEmpty is false for the first member of a line, which is a number.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case json.RawMessage:
		return len(v) == 0
	}
	return false
}

func decodeEventLines(raw json.RawMessage) ([]workflow.Event, error) {
	var all []json.RawMessage
	if err := table.DecodeStrict(raw, &all); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, nil
	}
	var first, at int64
	if err := decodeFields(all, &first, &at); err != nil {
		return nil, err
	}
	events := make([]workflow.Event, 0, len(all)-2)
	previous := map[string]string{}
	for i, one := range all[2:] {
		var fields []json.RawMessage
		if err := table.DecodeStrict(one, &fields); err != nil {
			return nil, err
		}
		var l eventLine
		if err := decodeFields(fields, &l.SincePrevious, &l.Type, &l.To, &l.From, &l.Step, &l.Entity, &l.Actor, &l.Data, &l.Layer); err != nil {
			return nil, err
		}
		at += l.SincePrevious
		if l.Layer == "" {
			l.Layer = defaultLayer(l.Type)
		}
		if l.From == sameAsPrevious {
			l.From = previous[l.Layer]
		}
		previous[l.Layer] = l.To
		if string(l.Data) == "null" {
			l.Data = nil
		}
		events = append(events, workflow.Event{
			Sequence: first + int64(i), At: table.FromMillis(at), Layer: l.Layer, Type: l.Type,
			From: l.From, To: l.To, Step: l.Step, Entity: l.Entity, Actor: l.Actor, Data: l.Data,
		})
	}
	return events, nil
}

// decodeFields decodes the members of an array into targets. Targets without a
// member stay as they are.
func decodeFields(fields []json.RawMessage, targets ...any) error {
	for i, f := range fields {
		if i == len(targets) {
			break
		}
		if raw, ok := targets[i].(*json.RawMessage); ok {
			*raw = f
			continue
		}
		if err := table.DecodeStrict(f, targets[i]); err != nil {
			return err
		}
	}
	return nil
}

// defaultLayer returns the layer of most events of a type.
func defaultLayer(eventType string) string {
	switch word, _, _ := strings.Cut(eventType, "."); word {
	case "workflow", "step", "job":
		return word
	}
	return "execution"
}
