package defgen

import (
	"fmt"
	"strings"
	"time"
)

// Block is the body of a step that calls a block.
type Block struct {
	Name     string
	OnDevice bool // runOn: device, otherwise global
	Retry    *Retry

	Items          int // of a foreach, 0 without one; the block gets the number of the item
	ItemsTolerated int // how many of the items may fail
}

// Retry describes how failed jobs are retried.
type Retry struct {
	Max   int
	Delay time.Duration
	When  string
}

func drawBlock(w *generator, s *Step, _ int) Body {
	b := &Block{Name: pick(w.Choose, "block", "pure", "again", "again", "once", "once", "harmless", "forever")}
	if w.sharedLocks {
		b.Name = "pure"
	}
	b.OnDevice = pick(w.Choose, "on", true, true, false)
	if w.items && !b.OnDevice && s.Repeat == nil && w.oneIn("items", 2) {
		b.Items, b.ItemsTolerated = 1+w.Choose("how many", 6), w.Choose("items tolerated", 3)
	}
	w.addCondition(s, b)
	if n := pick(w.Choose, "retries", 0, 0, 1, 3); n > 0 {
		b.Retry = &Retry{Max: n, Delay: pick(w.Choose, "pause", 5*time.Second, 5*time.Second, 40*time.Second), When: pick(w.Choose, "when", "", "error.retryable")}
	}
	w.addParameters(s, b)
	if w.allFeatures {
		if w.oneIn("stepTimeout", 10) {
			s.addField("stepTimeout: 45s")
		}
		if w.oneIn("jobTimeout", 10) {
			s.addField("timeout: 8s")
		}
		if w.oneIn("assert", 12) {
			s.Assert = w.assertion(b)
		}
		if s.Repeat != nil && w.oneIn("while", 2) {
			s.Repeat.While = compare(resultField(s.Label, "attempt", b.OnDevice), "==", 1)
		}
	}
	if b.Items > 0 {
		s.Parameters = append(s.Parameters, Parameter{Name: "item", Text: "${index + item}"})
		return b
	}
	w.blocks = append(w.blocks, earlierBlock{s.Label, b.OnDevice})
	return b
}

// earlierBlock is a step whose result later steps can read.
type earlierBlock struct {
	label    string
	onDevice bool
}

// earlier chooses an earlier step that calls a block: once for each entity if onDevice, once
// otherwise. ok is false if there is none.
func (w *generator) earlier(onDevice bool) (label string, ok bool) {
	var labels []string
	for _, b := range w.blocks {
		if b.onDevice == onDevice {
			labels = append(labels, b.label)
		}
	}
	if len(labels) == 0 {
		return "", false
	}
	return labels[w.Choose("earlier step", len(labels))], true
}

func (w *generator) addCondition(s *Step, b *Block) {
	if !b.OnDevice || !w.oneIn("condition", 3) {
		return
	}
	switch w.Choose("of whom", 7) {
	case 0:
		s.Condition = compare(attribute("id"), "<", "d001")
	case 1:
		s.Condition = compare(attribute("id"), ">", "d001")
	case 2:
		s.Condition = compare(attribute("ready"), "==", true)
	case 3:
		s.Condition = hasAttribute("by")
	case 4:
		if label, ok := w.earlier(true); ok {
			s.Condition = compare(resultField(label, "attempt", true), "==", 1)
			return
		}
		fallthrough
	default:
		s.Condition = compare(attribute("id"), "<", "d003")
	}
}

// addParameters adds parameters. Only a definition with all features has parameters that may be
// missing.
func (w *generator) addParameters(s *Step, b *Block) {
	if !w.oneIn("parameters", 3) {
		return
	}
	add := func(p Parameter) { s.Parameters = append(s.Parameters, p) }
	if b.OnDevice {
		add(within("name", "device ", attribute("name"), "!"))
		add(whole("by", attributeOr("by", "nobody")))
	}
	if label, ok := w.earlier(true); ok && w.oneIn("all results", 3) {
		add(whole("all", allResults(label)))
	}
	if !w.allFeatures {
		return
	}
	if b.OnDevice && w.oneIn("an attribute", 2) {
		add(whole("ready", attribute("ready")))
	}
	if w.oneIn("a parameter", 4) {
		add(whole("n", parameter("n")))
	}
	if onDevice := b.OnDevice && w.oneIn("of the entity", 2); w.oneIn("a result", 4) {
		if label, ok := w.earlier(onDevice); ok {
			add(whole("before", resultField(label, "by", onDevice)))
		}
	}
}

func (w *generator) assertion(b *Block) *Expression {
	if !b.OnDevice {
		return compare(parameter("n"), "<", 5)
	}
	switch w.Choose("assertion", 3) {
	case 0:
		return compare(attribute("id"), "!=", "d002")
	case 1:
		return compare(attribute("ready"), "==", true)
	}
	return compare(parameter("n"), "<", 5)
}

func (b *Block) fields() []string {
	on := "global"
	if b.OnDevice {
		on = "device"
	}
	if b.Items > 0 {
		on = fmt.Sprintf("item, foreach: {items: '${[%s0]}', failureTolerance: %d}", strings.Repeat("0, ", b.Items-1), b.ItemsTolerated)
	}
	fields := []string{"runOn: " + on}
	if r := b.Retry; r != nil {
		when := ""
		if r.When != "" {
			when = ", when: " + r.When
		}
		fields = append(fields, fmt.Sprintf("retry: {maxRetries: %d, delay: %s%s}", r.Max, r.Delay, when))
	}
	return append(fields, fmt.Sprintf("functionBlock: p/%s:1", b.Name))
}

// Nested implements Body.
func (b *Block) Nested() []*Step { return nil }

func (b *Block) without([]string) Body { return b }
