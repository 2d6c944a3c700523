package sqs

import (
	"encoding/json"
	"net/http"
)

// SetFaults replaces the faults from now on. Copies and delays of messages
// already sent stay as they are.
func (s *Server) SetFaults(f Faults) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.set(f, func(operation string) bool { return operations[operation] != nil })
}

// FaultState returns the faults in force and what they have done so far.
func (s *Server) FaultState() (Faults, FaultCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.state()
}

// serveFaults is /_faults: GET shows faults and counts, POST replaces the
// faults, so that {} ends them. There is nothing like it on AWS.
func (s *Server) serveFaults(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		var f Faults
		in := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		in.DisallowUnknownFields()
		err := in.Decode(&f)
		if err == nil {
			err = s.SetFaults(f)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
		return
	}
	faults, counts := s.FaultState()
	writeJSON(w, map[string]any{"faults": faults, "counts": counts})
}

// writeJSON answers a local address.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that has gone away needs no answer
}

// serveMeter is /_meter: the counts by queue and operation. There is nothing
// like it on AWS.
func (s *Server) serveMeter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		http.Error(w, "GET", http.StatusMethodNotAllowed)
		return
	}
	writeJSON(w, s.Usage())
}
