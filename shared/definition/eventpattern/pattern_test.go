package eventpattern_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition/eventpattern"
)

const order = `{"id":"e1","source":"shop.orders","detail-type":"order placed","resources":["arn:a","arn:b"],"detail":{
	"state":"Paid","total":300.0,"vip":false,"note":null,"empty":[],"lines":[{"sku":"a","n":1},{"sku":"b","n":7}]}}`

// Each pattern matches the order, or does not, as EventBridge has it.
func TestPattern_MatchesAsEventBridgeDoes(t *testing.T) {
	event, err := eventpattern.Decode([]byte(order))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		pattern string
		want    bool
	}{
		{`{"source":["shop.orders"]}`, true},
		{`{"source":["other","shop.orders"]}`, true},
		{`{"source":["shop"]}`, false},
		{`{"source":["shop.orders"],"detail-type":["other"]}`, false},
		{`{"missing":["a"]}`, false},
		{`{"resources":["arn:b"]}`, true},
		{`{"resources":["arn:c"]}`, false},
		{`{"detail":{"total":[300]}}`, true},
		{`{"detail":{"total":[3e2]}}`, true},
		{`{"detail":{"total":["300.0"]}}`, false},
		{`{"detail":{"vip":[false]}}`, true},
		{`{"detail":{"vip":[true]}}`, false},
		{`{"detail":{"note":[null]}}`, true},
		{`{"detail":{"state":[null]}}`, false},
		{`{"detail":{"missing":[null]}}`, false},
		{`{"source":[{"prefix":"shop."}]}`, true},
		{`{"source":[{"prefix":"Shop."}]}`, false},
		{`{"source":[{"prefix":""}]}`, true},
		{`{"missing":[{"prefix":""}]}`, false},
		{`{"source":[{"prefix":{"equals-ignore-case":"SHOP."}}]}`, true},
		{`{"source":[{"prefix":"shop.orders.and.more"}]}`, false},
		{`{"source":[{"suffix":".orders"}]}`, true},
		{`{"source":[{"suffix":".order"}]}`, false},
		{`{"source":[{"suffix":{"equals-ignore-case":".ORDERS"}}]}`, true},
		{`{"detail":{"state":[{"equals-ignore-case":"paid"}]}}`, true},
		{`{"detail":{"state":[{"equals-ignore-case":"pai"}]}}`, false},
		{`{"detail":{"total":[{"prefix":"3"}]}}`, false},
		{`{"detail":{"state":[{"anything-but":"Paid"}]}}`, false},
		{`{"detail":{"state":[{"anything-but":["Open","Shipped"]}]}}`, true},
		{`{"detail":{"state":[{"anything-but":["Open","Paid"]}]}}`, false},
		{`{"detail":{"total":[{"anything-but":300}]}}`, false},
		{`{"detail":{"missing":[{"anything-but":"a"}]}}`, false},
		{`{"detail":{"state":[{"anything-but":{"prefix":"Pa"}}]}}`, false},
		{`{"detail":{"state":[{"anything-but":{"prefix":["Op","Sh"]}}]}}`, true},
		{`{"detail":{"state":[{"anything-but":{"suffix":"id"}}]}}`, false},
		{`{"detail":{"state":[{"anything-but":{"equals-ignore-case":["paid"]}}]}}`, false},
		{`{"detail":{"total":[{"numeric":["=",300]}]}}`, true},
		{`{"detail":{"total":[{"numeric":[">",0,"<=",300]}]}}`, true},
		{`{"detail":{"total":[{"numeric":[">",0,"<",300]}]}}`, false},
		{`{"detail":{"total":[{"numeric":[">=",300.1]}]}}`, false},
		{`{"detail":{"state":[{"numeric":[">",0]}]}}`, false},
		{`{"detail":{"state":[{"exists":true}]}}`, true},
		{`{"detail":{"note":[{"exists":true}]}}`, true},
		{`{"detail":{"missing":[{"exists":true}]}}`, false},
		{`{"detail":{"missing":[{"exists":false}]}}`, true},
		{`{"nothing":{"missing":[{"exists":false}]}}`, true},
		{`{"detail":{"state":[{"exists":false}]}}`, false},
		{`{"detail":{"empty":[{"exists":true}]}}`, false},
		{`{"detail":[{"exists":true}]}`, false},
		{`{"detail":{"state":["Open",{"prefix":"P"}]}}`, true},
		{`{"detail":{"lines":{"sku":["b"],"n":[{"numeric":[">",5]}]}}}`, true},
		{`{"detail":{"lines":{"sku":["a"],"n":[{"numeric":[">",5]}]}}}`, false},
		{`{"$or":[{"source":["other"]},{"detail":{"vip":[false]}}]}`, true},
		{`{"$or":[{"source":["other"]},{"detail":{"vip":[true]}}]}`, false},
		{`{"source":["other"],"$or":[{"detail":{"vip":[false]}},{"detail":{"vip":[true]}}]}`, false},
		{`{"detail":{"$or":[{"state":["Open"]},{"total":[{"numeric":[">",100]}]}]}}`, true},
	} {
		p, issues := eventpattern.Parse(json.RawMessage(test.pattern))
		if len(issues) > 0 {
			t.Errorf("%s: %v", test.pattern, issues)
		} else if p.Matches(event) != test.want {
			t.Errorf("%s: %v", test.pattern, !test.want)
		}
	}
	p, _ := eventpattern.Parse(json.RawMessage(`{"source":[{"exists":false}]}`))
	for _, other := range []string{`"text"`, `7`, `null`, `[]`, `[1]`} {
		if v, err := eventpattern.Decode([]byte(other)); err != nil || !p.Matches(v) {
			t.Errorf("%s has a source, or %v", other, err)
		}
	}
}

// A number that is written with more than 64 characters is none: parsing it takes long.
func TestPattern_LongNumbersAreNone(t *testing.T) {
	for pattern, want := range map[string]map[int]bool{
		`{"n":[{"numeric":[">",0]}]}`:  {1: true, 64: true, 65: false, 200_000: false},
		`{"n":[{"anything-but":[7]}]}`: {1: false, 64: true, 65: true},
	} {
		p, issues := eventpattern.Parse(json.RawMessage(pattern))
		if len(issues) > 0 {
			t.Fatal(issues)
		}
		for digits, want := range want {
			event, err := eventpattern.Decode([]byte(`{"n":` + strings.Repeat("7", digits) + `}`))
			if err != nil || p.Matches(event) != want {
				t.Errorf("%s, %d digits: %v, %v", pattern, digits, !want, err)
			}
		}
	}
}

// What cannot match, and what is not known, is refused with its place.
func TestParse_RefusesWhatItDoesNotKnow(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20) + `["b"]` + strings.Repeat("}", 20)
	for pattern, want := range map[string]string{
		`{}`:                             " pattern",
		`[]`:                             " pattern",
		`{`:                              " pattern",
		`{"source":"shop"}`:              ".source pattern",
		`{"source":[]}`:                  ".source pattern",
		`{"detail":{}}`:                  ".detail pattern",
		`{"source":[["a"]]}`:             ".source[0] pattern",
		`{"source":[{"wildcard":"a*"}]}`: ".source[0].wildcard unsupported",
		`{"a":{"ip":["x",{"cidr":"10.0.0.0/8"}]}}`:                     ".a.ip[1].cidr unsupported",
		`{"source":[{"contains":"a"}]}`:                                ".source[0].contains pattern",
		`{"source":[{"prefix":"a","suffix":"b"}]}`:                     ".source[0] pattern",
		`{"source":[{"prefix":7}]}`:                                    ".source[0].prefix pattern",
		`{"source":[{"exists":"yes"}]}`:                                ".source[0].exists pattern",
		`{"n":[{"numeric":[">"]}]}`:                                    ".n[0].numeric pattern",
		`{"n":[{"numeric":["!",7]}]}`:                                  ".n[0].numeric[0] pattern",
		`{"n":[{"numeric":[">","7"]}]}`:                                ".n[0].numeric[0] pattern",
		`{"n":[{"anything-but":[]}]}`:                                  ".n[0].anything-but pattern",
		`{"n":[{"anything-but":{"wildcard":"a*"}}]}`:                   ".n[0].anything-but.wildcard unsupported",
		`{"n":[{"anything-but":[{"prefix":"a"}]}]}`:                    ".n[0].anything-but[0] pattern",
		`{"$or":[{"a":["b"]}]}`:                                        ".$or pattern",
		`{"$or":[{"a":["b"]},7]}`:                                      ".$or[1] pattern",
		deep:                                                           strings.Repeat(".a", 17) + " limit",
		`{"a":["` + strings.Repeat("x", eventpattern.MaxBytes) + `"]}`: " limit",
	} {
		_, issues := eventpattern.Parse(json.RawMessage(pattern))
		if len(issues) == 0 || fmt.Sprint(issues[0].Path, " ", issues[0].Code) != want {
			t.Errorf("%s: %v, want %s", pattern, issues, want)
		}
	}
}
