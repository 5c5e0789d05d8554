package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MaxArtifacts is how many artifacts a Run may leave, and how many a step of a WorkflowRun may get.
const MaxArtifacts = 32

// ArtifactDriver names the kind of store in which an artifact lies.
// +kubebuilder:validation:Enum=Filesystem;S3
type ArtifactDriver string

const (
	// ArtifactDriverFilesystem is a directory of a volume.
	ArtifactDriverFilesystem ArtifactDriver = "Filesystem"
	// ArtifactDriverS3 is a bucket of an S3-compatible service.
	ArtifactDriverS3 ArtifactDriver = "S3"
)

// ArtifactType says what an artifact becomes when it is staged.
// +kubebuilder:validation:Enum=File;Directory
type ArtifactType string

const (
	// ArtifactFile is a single file, stored as it is.
	ArtifactFile ArtifactType = "File"
	// ArtifactDirectory is a directory, stored as a compressed archive.
	ArtifactDirectory ArtifactType = "Directory"
)

// ArtifactRef says where the bytes of one artifact lie. It is an address, not an authorization.
// +kubebuilder:validation:XValidation:rule="self.driver == 'S3' ? has(self.location.s3) && !has(self.location.filesystem) : has(self.location.filesystem) && !has(self.location.s3)",message="location must hold the coordinates of the driver, and no others",fieldPath=.location
type ArtifactRef struct {
	// name is unique among the artifacts of a Run. Size: 1 to 255 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`

	// driver is the kind of store.
	// +required
	Driver ArtifactDriver `json:"driver"`

	// type says whether the artifact is a file or a directory.
	// +required
	Type ArtifactType `json:"type"`

	// location holds the coordinates within the store.
	// +required
	Location ArtifactLocation `json:"location"`

	// sizeBytes is the size of the stored object. Unit: bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SizeBytes int64 `json:"sizeBytes,omitempty"`

	// digest of the stored object, checked when it is staged. Shape: "sha256:" and 64 hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// createdAt is when the object became complete.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// ArtifactLocation holds the coordinates for exactly one driver.
type ArtifactLocation struct {
	// filesystem is set for driver Filesystem.
	// +optional
	Filesystem *FilesystemLocation `json:"filesystem,omitempty"`
	// s3 is set for driver S3.
	// +optional
	S3 *S3Location `json:"s3,omitempty"`
}

// FilesystemLocation is a path within the Runtime's artifact volume.
type FilesystemLocation struct {
	// path below the root of the volume. Shape: runs/<run-uid>/artifacts/<name>.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^runs/[0-9a-f-]{36}/artifacts/[^/]+$`
	Path string `json:"path"`
}

// S3Location is an object of a bucket.
type S3Location struct {
	// bucket that holds the object.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket"`
	// key of the object. Shape: <prefix>/runs/<run-uid>/artifacts/<name>.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`(^|/)runs/[0-9a-f-]{36}/artifacts/[^/]+$`
	Key string `json:"key"`
}

// ArtifactInput is an artifact that is copied below the working directory before a Run starts.
type ArtifactInput struct {
	// artifact that is copied. It must lie in the store of the Run's Runtime.
	// +required
	Artifact ArtifactRef `json:"artifact"`

	// path to which a file is copied, or in which a directory is unpacked. Relative to the working directory, without
	// ".", ".." or empty parts, and not below .kruntimes. Size: 1 to 1,024 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..' || p == '.' || p == '')",message="path must be relative, without '..', '.' or empty parts"
	// +kubebuilder:validation:XValidation:rule="self != '.kruntimes' && !self.startsWith('.kruntimes/')",message="path must not lie below .kruntimes, which is reserved"
	Path string `json:"path"`
}
