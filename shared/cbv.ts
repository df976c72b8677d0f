// The Core Business Vocabulary's bare words (CBV 2.0), by the field they stand in: what an EPCIS event may say without a URI of its own.

export const cbv = {
  bizStep: `accepting arriving assembling collecting commissioning consigning creating_class_instance cycle_counting
    decommissioning departing destroying disassembling dispensing encoding entering_exiting holding inspecting installing killing
    loading other packing picking receiving removing repackaging repairing replacing reserving retail_selling sampling
    sensor_reporting shipping staging_outbound stock_taking stocking storing transporting unloading unpacking void_shipping`,
  disposition: `active available completeness_inferred completeness_verified conformant container_closed container_open damaged
    destroyed dispensed disposed encoded expired in_progress in_transit inactive mismatch_class mismatch_instance mismatch_quantity
    needs_replacement no_pedigree_match non_conformant non_sellable_other partially_dispensed recalled reserved retail_sold returned
    sellable_accessible sellable_not_accessible stolen unavailable unknown`,
  bizTransaction: "bol cert desadv inv pedigree po poc prodorder recadv rma testprd testres upevt",
  party: "location owning_party possessing_party",
  errorReason: "did_not_occur incorrect_data",
  component: `altitude axial_distance azimuth easting elevation_angle height latitude longitude northing polar_angle spherical_radius
    x y z`,
  sensorAlert: "ALARM_CONDITION ERROR_CONDITION",
  measurement: `AbsoluteHumidity AbsorbedDose AbsorbedDoseRate Acceleration Altitude AmountOfSubstance AmountOfSubstancePerUnitVolume
    Angle AngularAcceleration AngularMomentum AngularVelocity Area Capacitance Conductance Conductivity Count Density Dimensionless
    DoseEquivalent DoseEquivalentRate DynamicViscosity ElectricCharge ElectricCurrent ElectricCurrentDensity ElectricFieldStrength
    Energy Exposure Force Frequency Illuminance Inductance Irradiance KinematicViscosity Length LinearMomentum Luminance LuminousFlux
    LuminousIntensity MagneticFlux MagneticFluxDensity MagneticVectorPotential Mass MassConcentration MassFlowRate MassPerAreaTime
    MemoryCapacity MolalityOfSolute MolarEnergy MolarMass MolarVolume Power Pressure RadiantFlux RadiantIntensity Radioactivity
    RelativeHumidity Resistance Resistivity SolidAngle SpecificVolume Speed SurfaceDensity SurfaceTension Temperature Time Torque
    Voltage Volume VolumeFlowRate VolumeFraction VolumetricFlux Wavenumber`,
} as const;

export type Vocabulary = keyof typeof cbv;

const words = new Map(Object.entries(cbv).map(([name, text]) => [name, new Set(text.split(/\s+/))]));

/** The spellings of the standard's own words that 2.0 JSON has done with: there they are bare. */
const OUTDATED = /^(?:urn:epcglobal:cbv|https?:\/\/ns\.gs1\.org\/cbv\/)/;
const OUTDATED_MEASURE = /^https?:\/\/(?:www\.)?gs1\.org\/voc\//;
const OF_MEASURES: ReadonlySet<Vocabulary> = new Set(["measurement", "sensorAlert"]);
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+$/;

/** What is wrong with a word of this vocabulary, as a sentence's end; URIs of one's own are words too. */
export function wordFault(vocabulary: Vocabulary, word: string): string | undefined {
  if (words.get(vocabulary)?.has(word)) return undefined;
  const outdated = (OF_MEASURES.has(vocabulary) ? OUTDATED_MEASURE : OUTDATED).test(word);
  if (outdated) return "is the standard's own word as a URI: EPCIS 2.0 JSON has it bare, such as commissioning";
  return URI.test(word) ? undefined : `is no word of the CBV's ${vocabulary} and no URI of your own`;
}

const SPELT = /^(?:(?:cbv:|https:\/\/ref\.gs1\.org\/cbv\/)[A-Za-z]+-|urn:epcglobal:cbv:[a-z]+:)(\w+)$/;
/** The bare word, however it was spelt: `shipping`, `cbv:BizStep-shipping`, `https://ref.gs1.org/cbv/BizStep-shipping`, in questions as EPCIS 1.2 has it too. */
export const bareWord = (word: string): string => SPELT.exec(word)?.[1] ?? word;
