package sim

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// clone returns a deep copy of v. Like a store, it turns an empty list or map into nil.
func clone[T any](v T) T {
	c := v
	cloneInPlace(reflect.ValueOf(&c).Elem(), cloneInfoOf(reflect.TypeFor[T]()))
	return c
}

// Values of these types are never changed in place.
var (
	timeType   = reflect.TypeFor[time.Time]()
	placesType = reflect.TypeFor[workflow.Places]()
)

// cloneInfo says where values of a type hold references that an assignment would share.
// It is nil for a type whose values hold none.
type cloneInfo struct {
	kind   reflect.Kind
	typ    reflect.Type
	of     *cloneInfo   // of the element of a pointer, a slice or a map
	fields []cloneField // of a struct
}

type cloneField struct {
	index int
	of    *cloneInfo
}

var cloneInfos sync.Map // reflect.Type to *cloneInfo

func cloneInfoOf(t reflect.Type) *cloneInfo {
	if d, ok := cloneInfos.Load(t); ok {
		return d.(*cloneInfo)
	}
	d := newCloneInfo(t)
	cloneInfos.Store(t, d)
	return d
}

func newCloneInfo(t reflect.Type) *cloneInfo {
	switch kind := t.Kind(); kind {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return &cloneInfo{kind: kind, typ: t, of: cloneInfoOf(t.Elem())}
	case reflect.Struct:
		d := &cloneInfo{kind: kind, typ: t}
		if t == timeType || t == placesType {
			return nil
		}
		for i := range t.NumField() {
			if of := cloneInfoOf(t.Field(i).Type); of != nil {
				d.fields = append(d.fields, cloneField{i, of})
			}
		}
		if len(d.fields) == 0 {
			return nil
		}
		return d
	default:
		if !isPlainKind(kind) {
			panic(fmt.Errorf("sim: a value of type %s cannot be stored", t))
		}
		return nil
	}
}

// cloneInPlace replaces every shared reference in v by a copy.
func cloneInPlace(v reflect.Value, d *cloneInfo) {
	if d == nil {
		return
	}
	switch d.kind {
	case reflect.Pointer:
		if !v.IsNil() {
			to := reflect.New(d.typ.Elem())
			to.Elem().Set(v.Elem())
			cloneInPlace(to.Elem(), d.of)
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
				cloneInPlace(to.Index(i), d.of)
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
				cloneInPlace(value, d.of)
			}
			to.SetMapIndex(m.Key(), value)
		}
		v.Set(to)
	case reflect.Struct:
		for _, f := range d.fields {
			cloneInPlace(v.Field(f.index), f.of)
		}
	}
}

// isPlainKind reports whether assigning a value of this kind copies it.
func isPlainKind(k reflect.Kind) bool {
	return k <= reflect.Complex128 && k != reflect.Uintptr || k == reflect.String
}

// sizeOf estimates the size of a value in bytes.
func sizeOf(v any) int { return sizeOfValue(reflect.ValueOf(v)) }

func sizeOfValue(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += sizeOfValue(v.Elem())
		}
	case reflect.String:
		n += v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		for i := range v.Len() {
			n += sizeOfValue(v.Index(i))
		}
	case reflect.Map:
		for m := v.MapRange(); m.Next(); {
			n += sizeOfValue(m.Key()) + sizeOfValue(m.Value())
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return 8
		}
		for i := range v.NumField() {
			n += sizeOfValue(v.Field(i))
		}
	default:
		n = 8
	}
	return n
}
