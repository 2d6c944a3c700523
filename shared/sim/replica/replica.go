package replica

import (
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Of is a value that shares no memory with v. Like a store, it does not tell
// a list or a map without members from none.
func Of[T any](v T) T {
	c := v
	part(reflect.ValueOf(&c).Elem(), deepOf(reflect.TypeFor[T]()))
	return c
}

var timeType = reflect.TypeFor[time.Time]()

// deep says where values of a type refer to memory that a copy by assignment would
// share. It is nil for a type whose values share none.
type deep struct {
	kind   reflect.Kind
	typ    reflect.Type
	of     *deep      // of what a pointer, a slice or a map refers to
	fields []deepPart // of a struct
}

type deepPart struct {
	at int
	of *deep
}

var known sync.Map // of reflect.Type to *deep

func deepOf(t reflect.Type) *deep {
	if d, ok := known.Load(t); ok {
		return d.(*deep)
	}
	d := found(t)
	known.Store(t, d)
	return d
}

func found(t reflect.Type) *deep {
	switch kind := t.Kind(); kind {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return &deep{kind: kind, typ: t, of: deepOf(t.Elem())}
	case reflect.Struct:
		d := &deep{kind: kind, typ: t}
		if t == timeType {
			return nil
		}
		for i := range t.NumField() {
			if of := deepOf(t.Field(i).Type); of != nil {
				d.fields = append(d.fields, deepPart{i, of})
			}
		}
		if len(d.fields) == 0 {
			return nil
		}
		return d
	default:
		if !plain(kind) {
			panic(fmt.Errorf("simulated: a %s cannot be stored", t))
		}
		return nil
	}
}

// part makes a copy by assignment one that shares no memory.
func part(v reflect.Value, d *deep) {
	if d == nil {
		return
	}
	switch d.kind {
	case reflect.Pointer:
		if !v.IsNil() {
			to := reflect.New(d.typ.Elem())
			to.Elem().Set(v.Elem())
			part(to.Elem(), d.of)
			v.Set(to)
		}
	case reflect.Slice:
		n := v.Len()
		if n == 0 {
			if !v.IsNil() {
				v.SetZero()
			}
			return
		}
		to := reflect.MakeSlice(d.typ, n, n)
		reflect.Copy(to, v)
		if d.of != nil {
			for i := range n {
				part(to.Index(i), d.of)
			}
		}
		v.Set(to)
	case reflect.Map:
		n := v.Len()
		if n == 0 {
			if !v.IsNil() {
				v.SetZero()
			}
			return
		}
		to := reflect.MakeMapWithSize(d.typ, n)
		for m := v.MapRange(); m.Next(); {
			value := m.Value()
			if d.of != nil {
				value = reflect.New(d.typ.Elem()).Elem()
				value.Set(m.Value())
				part(value, d.of)
			}
			to.SetMapIndex(m.Key(), value)
		}
		v.Set(to)
	case reflect.Struct:
		for _, f := range d.fields {
			part(v.Field(f.at), f.of)
		}
	}
}

// plain reports whether assigning a value of this kind copies it.
func plain(k reflect.Kind) bool {
	return k <= reflect.Complex128 && k != reflect.Uintptr || k == reflect.String
}

// Weight is about how many bytes a value takes.
func Weight(v any) int { return weight(reflect.ValueOf(v)) }

func weight(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += weight(v.Elem())
		}
	case reflect.String:
		n += v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		for i := range v.Len() {
			n += weight(v.Index(i))
		}
	case reflect.Map:
		for m := v.MapRange(); m.Next(); {
			n += weight(m.Key()) + weight(m.Value())
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return 8
		}
		for i := range v.NumField() {
			n += weight(v.Field(i))
		}
	default:
		n = 8
	}
	return n
}
