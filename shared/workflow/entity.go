package workflow

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"
)

// EntityKey names an entity. Its text is "type/id".
type EntityKey struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (k EntityKey) String() string { return k.Type + "/" + k.ID }

// ParseEntityKey reads "type/id".
func ParseEntityKey(s string) (EntityKey, error) {
	t, id, ok := strings.Cut(s, "/")
	if !ok || !ValidID(t) || !ValidID(id) {
		return EntityKey{}, Errorf(CodeInvalid, "%q is not an entity: want type/id", s)
	}
	return EntityKey{t, id}, nil
}

// Compare orders keys by type, then id: the fixed order in which a run's
// entities are cut into packs.
func (k EntityKey) Compare(o EntityKey) int {
	return cmp.Or(cmp.Compare(k.Type, o.Type), cmp.Compare(k.ID, o.ID))
}

// MaxAttributesBytes is the size of an entity's attributes, in bytes.
const MaxAttributesBytes = 32 << 10

// Entity is one thing in the inventory.
type Entity struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes,omitempty"` // object
	Groups     []string        `json:"groups,omitempty"`
	Version    int64           `json:"version"` // grows with every write to the inventory
	Token      int64           `json:"token"`   // lock token of the last run that updated it; 0 none
}

// Key is the entity's name.
func (e *Entity) Key() EntityKey { return EntityKey{e.Type, e.ID} }

// Selector asks for entities of one type: the union of ids, groups and a CEL
// query over attributes.
type Selector struct {
	Type   string   `json:"type,omitempty"`
	IDs    []string `json:"ids,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Query  string   `json:"query,omitempty"`
}

// Empty reports whether the selector asks for nothing.
func (s *Selector) Empty() bool {
	return s == nil || (len(s.IDs) == 0 && len(s.Groups) == 0 && s.Query == "")
}

// Unspecified reports whether the selector, as it was given, names a type and does not say
// which entities of it: all and none are both too much to guess. A list that is
// given and empty says none.
func (s *Selector) Unspecified() bool {
	return s != nil && s.Type != "" && s.IDs == nil && s.Groups == nil && s.Query == ""
}

// UnspecifiedSelectorHint is what to do about a [Selector] that is vague.
const UnspecifiedSelectorHint = "say which entities of the type: ids, groups, or a query, which is \"true\" for all"

// ScopeEntity is an entity of a run's scope with what the run knows of it since it
// holds the lock: the lock's token and the attributes read under it.
type ScopeEntity struct {
	Key        EntityKey       `json:"key"`
	Token      int64           `json:"token"`
	Attributes json.RawMessage `json:"attributes,omitempty"`
}

// Apply is the entity's attributes with an update applied: names set, then names
// removed. Attributes that are no object count as none.
func (u *Update) Apply(attributes json.RawMessage) json.RawMessage {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(attributes, &all)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, u.Set)
	for _, name := range u.Remove {
		delete(all, name)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return attributes // every value has been JSON before
	}
	return raw
}
