"""The admission webhook for new pods. The API server calls it, and every replica serves it.

It answers with a patch of the pod and never refuses a pod. `syncline.core.injection` decides about the patch.
"""
