package core

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contains tells whether live holds everything that desired says. What the API server and others add is not looked at.
// A field that desired no longer has is found by the digest that is among its annotations.
func contains(live, desired client.Object) (bool, error) {
	has, err := jsonForm(live)
	if err != nil {
		return false, err
	}
	wants, err := jsonForm(desired)
	if err != nil {
		return false, err
	}
	for _, key := range []string{"apiVersion", "kind", "status"} {
		delete(wants, key) // Objects from the cache do not carry their kind.
	}
	return holds(has, wants), nil
}

func jsonForm(object client.Object) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T %s: %w", object, object.GetName(), err)
	}
	var form map[string]any
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, fmt.Errorf("decoding %T %s: %w", object, object.GetName(), err)
	}
	return form, nil
}

// holds tells whether the JSON value has contains wants: maps key by key, lists element by element.
func holds(has, wants any) bool {
	switch wants := wants.(type) {
	case nil:
		return true
	case map[string]any:
		has, _ := has.(map[string]any)
		for key, value := range wants {
			if !holds(has[key], value) {
				return false
			}
		}
		return true
	case []any:
		has, _ := has.([]any)
		if len(has) != len(wants) {
			return false
		}
		for i := range wants {
			if !holds(has[i], wants[i]) {
				return false
			}
		}
		return true
	default:
		return has == wants
	}
}
