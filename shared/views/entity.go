package views

import "encoding/json"

// EntityPatch requests a change of an entity. What it does not name stays.
type EntityPatch struct {
	Set          map[string]json.RawMessage `json:"set,omitempty"`
	Remove       []string                   `json:"remove,omitempty"` // attributes
	AddGroups    []string                   `json:"addGroups,omitempty"`
	RemoveGroups []string                   `json:"removeGroups,omitempty"`
	Version      *int64                     `json:"version,omitempty"` // the request is refused if the entity has another version
}

// ImportResult is what an import has stored.
type ImportResult struct {
	Imported  int `json:"imported"`
	Unchanged int `json:"unchanged"` // of those, entities that were already stored with this content
}
