package workflow

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"
)

// EntityKey identifies an entity. Its text is "type/id".
type EntityKey struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (k EntityKey) String() string { return k.Type + "/" + k.ID }

// Name returns the text of an entity's key or, if the key stands for an item, its number.
func (k EntityKey) Name() string {
	if k.Type == "" {
		return "item " + k.ID
	}
	return k.String()
}

// ParseEntityKey reads a key such as "type/id".
func ParseEntityKey(s string) (EntityKey, error) {
	t, id, ok := strings.Cut(s, "/")
	if !ok || !ValidID(t) || !ValidID(id) {
		return EntityKey{}, Errorf(CodeInvalid, "%q is not an entity: want type/id, such as device/sw-1", s)
	}
	return EntityKey{t, id}, nil
}

// Compare orders keys by type, then id: the fixed order in which the entities of an
// execution are cut into packs.
func (k EntityKey) Compare(o EntityKey) int {
	return cmp.Or(cmp.Compare(k.Type, o.Type), cmp.Compare(k.ID, o.ID))
}

// MaxAttributesBytes is the largest size of the attributes of an entity, in bytes.
const MaxAttributesBytes = 32 << 10

// Entity is one entry of the inventory.
type Entity struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes,omitempty"` // object
	Groups     []string        `json:"groups,omitempty"`
	Version    int64           `json:"version"` // +1 with every write of the entity
	Token      int64           `json:"token"`   // lock token of the last execution that updated it; 0 for none

	// Deleting means that somebody may be about to delete the entity at this version. It is not
	// deleted yet. An execution that locks the entity only has to write it first, which makes the
	// deletion fail.
	Deleting bool `json:"-"`
}

// EntityWrite is a write of an entity on the condition that it has not changed since it was read.
type EntityWrite struct {
	Entity      Entity
	SeenVersion int64 // 0 if there was no such entity
}

// Key returns the key of the entity.
func (e *Entity) Key() EntityKey { return EntityKey{e.Type, e.ID} }

// Selector selects entities of one type: the union of ids, groups and a CEL query over
// attributes.
type Selector struct {
	Type   string   `json:"type,omitempty"`
	IDs    []string `json:"ids,omitzero"`
	Groups []string `json:"groups,omitzero"`
	Query  string   `json:"query,omitempty"`
}

// Empty reports whether the selector selects nothing.
func (s *Selector) Empty() bool {
	return s == nil || (len(s.IDs) == 0 && len(s.Groups) == 0 && s.Query == "")
}

// HasEmptyList reports whether a list of the selector is present but empty. The store leaves
// such a list out.
func (s *Selector) HasEmptyList() bool {
	return s != nil && (s.IDs != nil && len(s.IDs) == 0 || s.Groups != nil && len(s.Groups) == 0)
}

// None reports whether the selector of an execution says that it selects no entity: it has a type,
// and nothing else.
func (s *Selector) None() bool { return s.Empty() && s != nil && s.Type != "" }

// Unspecified reports whether the selector names a type but not which of its entities: neither all
// nor none is a safe guess.
func (s *Selector) Unspecified() bool {
	return s != nil && s.Type != "" && s.IDs == nil && s.Groups == nil && s.Query == ""
}

// UnspecifiedSelectorHint says how to correct an unspecified [Selector].
const UnspecifiedSelectorHint = "say which entities of the type: ids, groups, or a query, which is \"true\" for all"

// ScopeEntity is an entity of the scope of an execution, with the token of its lock and
// the attributes read under the lock.
type ScopeEntity struct {
	Key        EntityKey       `json:"key"`
	Place      int             `json:"place,omitempty"` // see Places; omitted if it is the position in the scope, counted from 1
	Token      int64           `json:"token"`
	Attributes json.RawMessage `json:"attributes,omitempty"`
}

// Update requests a change of an entity's attributes. It is applied when the execution completes,
// if the execution holds the entity.
type Update struct {
	Entity EntityKey                  `json:"entity"`
	Set    map[string]json.RawMessage `json:"set,omitempty"`
	Remove []string                   `json:"remove,omitempty"`
}

// ApplyUpdates returns the attributes after applying the updates of one entity in order: each
// update first sets names, then removes names. Attributes that are not an object count as empty.
// They are decoded and encoded only once, however many updates there are.
func ApplyUpdates(attributes json.RawMessage, updates []Update) json.RawMessage {
	if len(updates) == 0 {
		return attributes
	}
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(attributes, &all)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for i := range updates {
		maps.Copy(all, updates[i].Set)
		for _, name := range updates[i].Remove {
			delete(all, name)
		}
	}
	raw, err := EncodeJSON(all)
	if err != nil {
		return attributes // cannot happen: every value was JSON before
	}
	return raw
}
