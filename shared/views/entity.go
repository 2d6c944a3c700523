package views

import "encoding/json"

// EntityPatch asks for a change of an entity. What it does not name stays.
type EntityPatch struct {
	Set          map[string]json.RawMessage `json:"set,omitempty"`
	Remove       []string                   `json:"remove,omitempty"` // attributes
	AddGroups    []string                   `json:"addGroups,omitempty"`
	RemoveGroups []string                   `json:"removeGroups,omitempty"`
	Version      *int64                     `json:"version,omitempty"` // refused if the entity has another one
}

// ImportResult says what an import has stored.
type ImportResult struct {
	Imported  int `json:"imported"`
	Unchanged int `json:"unchanged"` // of those, entities that were stored like that already
}
